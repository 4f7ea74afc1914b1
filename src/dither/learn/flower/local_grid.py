"""Devices without a network: a Flower grid in this process, for trying things out, and for tests.

A strategy sends messages to a grid and gets replies. Here they go through Flower's own serialization, both ways, so
that nothing passes that would not pass over a network; but one device answers after the other, and at once.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from dither.errors import MissingExtraError, ParameterError, require
from dither.learn.federated.participation import held_interrupts

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp


class LocalGrid(Grid):
    """Devices in this process: a client app, and a context for each of them. For trying things out, and for tests.

    Messages go through Flower's own serialization, both ways, one device after the other. `configs` holds what each
    device knows about itself (its `context.node_config`), or say how many there are.
    """

    def __init__(self, app: "ClientApp", configs: int | Sequence[dict[str, Any]], run_id: int = 1) -> None:
        serde = require("flwr.common.serde", "federated")
        self._wired = lambda message: serde.message_from_proto(serde.message_to_proto(message))
        self.app, self.run_id = app, run_id
        told = [{} for _ in range(configs)] if isinstance(configs, int) else list(configs)
        self.contexts = {
            place + 1: Context(run_id, place + 1, dict(config), RecordDict(), {}) for place, config in enumerate(told)
        }
        with suppress(MissingExtraError):  # only recent versions ask who is speaking
            identity = require("flwr.supercore.task_identity", "federated").TaskIdentity
            identity.task_id, identity.run_id, identity.node_id = 1, run_id, 0

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """All replies; an exception becomes an error, as on a real device. Ctrl-C waits for the reply of a device."""
        replies = []
        for message in messages:
            with held_interrupts():
                replies.append(self._answered(message))
        return replies

    def _answered(self, message: Message) -> Message:
        try:
            return self._wired(self.app(self._wired(message), self.contexts[message.metadata.dst_node_id]))
        except Exception as error:
            return Message(Error(code=0, reason=str(error)), reply_to=message)

    def get_node_ids(self) -> list[int]:
        """The devices."""
        return list(self.contexts)

    def set_run(self, run: Any) -> None:
        """There is one run only."""

    @property
    def run(self) -> NoReturn:
        """Not known here."""
        raise ParameterError("a grid in this process has no run; it sends and receives")

    def create_message(self, *_: Any, **__: Any) -> Message:
        """Flower's old way."""
        raise ParameterError("make messages with flwr.app.Message")

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Not in two steps."""
        raise ParameterError("a grid in this process answers at once: use send_and_receive")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Not in two steps."""
        raise ParameterError("a grid in this process answers at once: use send_and_receive")

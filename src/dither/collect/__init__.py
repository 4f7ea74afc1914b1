"""Collecting over a network: what takes reports in, keeps them, and counts each once.

- `store`, `sqlite_store`, `postgres_store`: what is on disk, and what that promises
- `collector`: checks batches, commits those that arrive together, counts them in the background; knows no HTTP
- `live_estimates`: results while they come in
- `live_page`, `live_streams`, `browser/`: the live page, the page for participants, and what tells them to look
- `service`, `routes`, `problems`, `openapi`, `metrics`: the HTTP service, an ASGI application
- `tokens`, `rate_limits`: who may do what, and how often
- `server`: all of it on a port
- `sealed_reports`, `sealing_keys`, `sealed_batches`: what only the collector can open, its keys, and how it does
- `shuffler`, `shuffler_store`: who carries them, without names and order, and what that keeps until it is forwarded
- `client`, `client_http`, `outbox`: the device that reports, what it asks and sends, and what it keeps until it arrived

Nothing below this floor knows HTTP.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

// The live page: asks the collector for what it draws, and puts it where it belongs.
//
// Pieces of HTML come from the same origin, where every text in them was escaped (dither/display/markup.py); they carry no
// scripts and no style attributes, and the policy of the page would run neither. Places that a drawing needs are in
// data-style, and are set here through the document's own interface.

const KEY = "dither-analyst";
const SOONEST = 1000; // milliseconds between two looks
const POLL = 5000; // where there is no stream
const SILENCE = 45000; // after which a stream is taken for broken
const byId = (id) => document.getElementById(id);
const policy = globalThis.trustedTypes?.createPolicy("dither", { createHTML: (text) => text });
const html = (text) => (policy ? policy.createHTML(text) : text);

let token = sessionStorage.getItem(KEY);
let campaign = null; // the hash of its plan
let seen = null; // the version of what is shown
let ranges = [];
let stream = null;
let period = null;

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = { authorization: `Bearer ${token}`, accept: "application/json", ...options.headers };
  const answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Refusal(answer.status, [problem.title, problem.detail].filter(Boolean).join(": ") || "The collector failed");
  }
  return answer;
}

const ofCampaign = (path) => `/v1/plans/${campaign}${path}`;

// Pieces of HTML --------------------------------------------------------------------------------------------------------

function fragment(text) {
  const template = document.createElement("template");
  template.innerHTML = html(text);
  const content = document.importNode(template.content, true);
  for (const element of content.querySelectorAll("[data-style]")) {
    for (const rule of element.dataset.style.split(";")) {
      const [name, value] = rule.split(":");
      if (value) element.style.setProperty(name.trim(), value.trim());
    }
    element.removeAttribute("data-style");
  }
  return content;
}

const shown = new Map(); // what each place holds, as it came
const FOCUSED = "a, button, input, select, summary, [tabindex]";
const cardsOf = (place) => [...place.querySelectorAll(".card[id]")];
const question = (card) => card.querySelector(".source code")?.textContent ?? card.id;

function put(place, name, text) {
  if (shown.get(name) === text) return;
  shown.set(name, text);
  const fresh = fragment(text);
  const here = cardsOf(place);
  const there = cardsOf(fresh);
  here.forEach((old) => keepState(old, there.find((card) => question(card) === question(old))));
  const focus = focusIn(place);
  // Cards stay in place, and only those change that say something new; unless there are others than before.
  if (here.length && here.length === there.length && here.every((card, number) => card.id === there[number].id)) {
    here.forEach((old, number) => {
      if (old.innerHTML === there[number].innerHTML) return;
      there[number].classList.add("fresh");
      old.replaceWith(there[number]);
    });
  } else place.replaceChildren(fresh);
  focus?.();
}

function keepState(old, fresh) {
  const open = [...old.querySelectorAll("details")].map((each) => each.open);
  [...(fresh?.querySelectorAll("details") ?? [])].forEach((each, number) => (each.open = open[number] ?? false));
}

// What gives the focus back to where it was: the same element of the same card, or of the same place.
function focusIn(place) {
  if (!place.contains(document.activeElement)) return null;
  const card = document.activeElement.closest(".card[id]");
  const name = card && question(card);
  const number = [...(card ?? place).querySelectorAll(FOCUSED)].indexOf(document.activeElement);
  return () => {
    if (place.contains(document.activeElement)) return;
    const around = name === null ? place : cardsOf(place).find((each) => question(each) === name);
    around?.querySelectorAll(FOCUSED)[number]?.focus({ preventScroll: true });
  };
}

// Coming in -------------------------------------------------------------------------------------------------------------

function tell(state, words) {
  byId("status").textContent = words;
  byId("status").parentElement.dataset.live = state;
}

byId("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  enter();
});

byId("leave").addEventListener("click", () => leave(""));

function leave(why) {
  stream?.abort();
  sessionStorage.removeItem(KEY);
  token = campaign = seen = null;
  shown.clear();
  byId("refused").textContent = why;
  for (const id of ["view", "campaigns", "leave", "ask"]) byId(id).hidden = true;
  for (const place of document.querySelectorAll("[data-part], #answers, #map, #sides, #share")) place.replaceChildren();
  byId("enter").hidden = false;
  byId("token").focus();
  tell("", "Not connected");
}

async function enter() {
  try {
    const campaigns = await (await ask("/v1/campaigns")).json();
    sessionStorage.setItem(KEY, token);
    byId("refused").textContent = "";
    byId("enter").hidden = true;
    byId("leave").hidden = false;
    list(campaigns);
    choose(campaigns.find((each) => each.state === "open")?.plan ?? campaigns[0].plan);
  } catch (problem) {
    if (problem instanceof Refusal) leave(problem.message);
    else {
      tell("away", "The collector does not answer; trying again");
      setTimeout(enter, POLL);
    }
  }
}

function list(campaigns) {
  const buttons = campaigns.map((each) => {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.plan = each.plan;
    button.textContent = `${each.plan.slice(0, 8)}: ${each.title}, ${each.state}`;
    button.addEventListener("click", () => choose(each.plan));
    const item = document.createElement("li");
    item.append(button);
    return item;
  });
  byId("campaigns").firstElementChild.replaceChildren(...buttons);
  byId("campaigns").hidden = campaigns.length < 2;
}

function choose(plan) {
  if (plan === campaign) return;
  campaign = plan;
  seen = period = null;
  ranges = [];
  shown.clear();
  byId("answers").replaceChildren();
  byId("ask").hidden = true;
  for (const button of byId("campaigns").querySelectorAll("button"))
    button.setAttribute("aria-current", String(button.dataset.plan === plan));
  follow();
}

// Staying up to date ----------------------------------------------------------------------------------------------------

let looking = null;
let wanted = false;

function look() {
  wanted = true;
  if (looking || document.hidden) return looking;
  looking = (async () => {
    while (wanted && token) {
      wanted = false;
      await refresh();
      await new Promise((done) => setTimeout(done, SOONEST));
    }
  })().finally(() => (looking = null));
  return looking;
}

async function refresh() {
  const plan = campaign;
  const asked = new URLSearchParams();
  if (seen !== null) asked.set("seen", seen);
  if (period !== null) asked.set("round", period);
  let found;
  try {
    found = await (await ask(ofCampaign(`/live?${asked}`))).json();
  } catch (problem) {
    if (problem instanceof Refusal && [401, 403].includes(problem.status)) leave(problem.message);
    return;
  }
  if (plan !== campaign) return;
  byId("title").textContent = found.title;
  byId("view").hidden = false;
  const fresh = seen !== found.version;
  for (const [name, text] of Object.entries(found.parts)) {
    const place = document.querySelector(`[data-part="${name}"]`);
    if (place) put(place, name, text);
  }
  seen = found.version;
  if (fresh) {
    needed();
    byId("round")?.addEventListener("change", (event) => {
      period = event.target.value;
      seen = null;
      look();
    });
    await offer(found.ranges ?? []);
  }
  document.body.dataset.version = String(seen);
}

async function follow() {
  stream?.abort();
  const own = (stream = new AbortController());
  let pause = 500;
  look();
  while (token && !own.signal.aborted) {
    let over = false;
    const link = new AbortController(); // this connection: it ends with the stream, without a network, or in silence
    const end = () => link.abort();
    own.signal.addEventListener("abort", end);
    addEventListener("offline", end);
    try {
      const answer = await ask(ofCampaign("/events"), { signal: link.signal, headers: { accept: "text/event-stream" } });
      tell("live", "Live: this page follows the collection");
      pause = 500;
      over = await read(answer.body.getReader(), end);
    } catch (problem) {
      if (own.signal.aborted) return;
      if (problem instanceof Refusal && [401, 403, 404].includes(problem.status)) {
        leave(problem.message);
        return;
      }
      if (problem instanceof Refusal && problem.status === 503) {
        tell("live", "Too many pages are open: this one looks every few seconds");
        pause = POLL;
      } else tell("away", "Not connected; trying again");
    } finally {
      own.signal.removeEventListener("abort", end);
      removeEventListener("offline", end);
    }
    if (over) return;
    await Promise.race([
      new Promise((done) => setTimeout(done, pause)),
      new Promise((done) => addEventListener("online", done, { once: true })),
    ]);
    pause = Math.min(2 * pause, POLL);
    if (!own.signal.aborted) look();
  }
}

// What a stream says, until it ends; the collector says something every 15 seconds.
async function read(reader, end) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const silence = setTimeout(end, SILENCE);
    const { value, done } = await reader.read().finally(() => clearTimeout(silence));
    if (done) {
      tell("away", "Not connected; trying again");
      return false;
    }
    rest += decoder.decode(value, { stream: true });
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const lines = Object.fromEntries(event.split("\n").map((line) => line.split(/: ?(.*)/s).slice(0, 2)));
      if (lines.event === "progress") look();
      if (lines.event === "end") {
        await look();
        tell("over", "The collection is closed: these results will not change");
        return true;
      }
    }
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && token && wanted) look();
});

// How many users are needed ---------------------------------------------------------------------------------------------

const HALF_WIDTH = 1.959963984540054;

function needed() {
  const within = Number(byId("within").value) / 100;
  for (const row of document.querySelectorAll("tr[data-users]")) {
    const { users, noise, doubt, width, total } = row.dataset;
    const error = (within * Number(width)) / HALF_WIDTH;
    let all = Infinity;
    if (!total && Number.isFinite(Number(noise)) && error > Number(doubt))
      all = (Number(users) * Number(noise) ** 2) / (error ** 2 - Number(doubt) ** 2);
    const cells = row.querySelectorAll("td");
    cells[3].textContent = usersWritten(all);
    cells[4].textContent = usersWritten(Math.max(0, all - Number(users)));
  }
}

function usersWritten(users) {
  if (!Number.isFinite(users) || users > 1e15) return "–";
  return users > 0 ? Math.ceil(users - 1e-9).toLocaleString("en") : "none";
}

byId("within").addEventListener("input", needed);

// Conditions ------------------------------------------------------------------------------------------------------------

async function answered(condition, question) {
  const answer = await ask(ofCampaign("/query"), {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/html" },
    body: JSON.stringify({ conditions: [condition], question }),
  });
  return fragment(await answer.text());
}

function trouble(problem) {
  byId("ask-problem").textContent = problem ? problem.message : "";
}

byId("query").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const found = await answered(byId("condition").value, byId("question").value || null);
    byId("answers").prepend(found);
    while (byId("answers").children.length > 8) byId("answers").lastElementChild.remove();
    trouble(null);
  } catch (problem) {
    trouble(problem);
  }
});

byId("example").addEventListener("click", () => {
  byId("condition").value = byId("example").textContent;
  byId("condition").focus();
});

// The range explorer ----------------------------------------------------------------------------------------------------

let sides = [];
let picked = [];

function options(select, names, chosen) {
  const fresh = names.map((name) => new Option(name, name, false, name === chosen));
  select.replaceChildren(...fresh);
}

async function offer(found) {
  const same = JSON.stringify(found) === JSON.stringify(ranges);
  ranges = found;
  byId("ask").hidden = !ranges.length;
  if (!ranges.length) return;
  if (!same) {
    options(byId("question"), ranges.map((each) => each.question), ranges[0].question);
    byId("question").parentElement.hidden = ranges.length < 2;
    about();
  }
  await draw(same);
}

function about() {
  const { attributes, example } = ranges.find((each) => each.question === byId("question").value);
  byId("example").textContent = example;
  options(byId("first"), attributes, attributes[0]);
  options(byId("second"), attributes, attributes[1] ?? attributes[0]);
}

byId("question").addEventListener("change", () => {
  about();
  draw(false);
});
for (const id of ["first", "second"]) byId(id).addEventListener("change", () => draw(false));

async function draw(keep) {
  const names = [byId("first").value, byId("second").value];
  if (names[0] === names[1]) {
    byId("map").replaceChildren();
    byId("sides").replaceChildren();
    byId("share").replaceChildren();
    trouble(new Error("Choose two different attributes."));
    return;
  }
  const asked = new URLSearchParams({ question: byId("question").value, first: names[0], second: names[1] });
  try {
    const found = await (await ask(ofCampaign(`/pair?${asked}`))).json();
    byId("map").replaceChildren(fragment(found.html));
    const before = keep && picked.length ? picked : null;
    sides = found.sides;
    picked = before ?? sides.map(whole);
    if (!before) controls();
    brush();
    trouble(null);
    if (before) await share();
    else byId("share").textContent = "All users are inside.";
  } catch (problem) {
    trouble(problem);
  }
}

const whole = (side) =>
  side.labels ? new Set(side.labels) : [first(side, 0), last(side, side.edges.length - 2)];
const first = (side, cell) => (side.whole ? Math.ceil(side.edges[cell]) : side.edges[cell]);
const last = (side, cell) => (side.whole ? Math.floor(side.edges[cell + 1]) : side.edges[cell + 1]);
const cellsOf = (side) => (side.labels ? side.labels.length : side.edges.length - 1);

function controls() {
  byId("sides").replaceChildren(...sides.map((side, place) => {
    const set = document.createElement("fieldset");
    const legend = document.createElement("legend");
    legend.textContent = side.name;
    set.append(legend, side.labels ? boxes(side, place) : ends(side, place));
    return set;
  }));
}

function ends(side, place) {
  const box = document.createElement("div");
  box.className = "ends-of";
  const [low, high] = whole(side);
  ["from", "to"].forEach((word, end) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    Object.assign(input, { type: "number", min: low, max: high, step: side.whole ? 1 : "any", value: picked[place][end] });
    input.dataset.end = String(end);
    input.addEventListener("input", () => {
      const value = Number(input.value);
      if (input.value === "" || !Number.isFinite(value)) return;
      picked[place][end] = Math.min(Math.max(value, low), high);
      mark();
      soon();
    });
    label.append(`${word} `, input);
    box.append(label);
  });
  return box;
}

function boxes(side, place) {
  const box = document.createElement("div");
  box.className = "boxes";
  for (const name of side.labels) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    Object.assign(input, { type: "checkbox", checked: picked[place].has(name) });
    input.addEventListener("change", () => {
      if (input.checked) picked[place].add(name);
      else picked[place].delete(name);
      mark();
      soon();
    });
    label.append(input, ` ${name}`);
    box.append(label);
  }
  return box;
}

// Where on a side, from 0 to 1, the picked values begin and end; of labels all that lie between the first and the last.
function reach(side, value) {
  const cells = cellsOf(side);
  if (side.labels) {
    const places = side.labels.map((name, place) => (value.has(name) ? place : -1)).filter((place) => place >= 0);
    return places.length ? [Math.min(...places) / cells, (Math.max(...places) + 1) / cells] : [0, 0];
  }
  const at = (number) => {
    let cell = side.edges.findIndex((edge) => edge > number) - 1;
    if (cell < 0) cell = number <= side.edges[0] ? 0 : cells - 1;
    const [low, high] = [side.edges[cell], side.edges[cell + 1]];
    return (cell + Math.min(1, Math.max(0, (number - low) / (high - low)))) / cells;
  };
  const [low, high] = value;
  return side.whole ? [at(low - 0.5), at(high + 0.5)] : [at(low), at(high)];
}

function brush() {
  const map = byId("map").querySelector(".heat");
  const box = document.createElement("div");
  box.className = "brush";
  const pick = document.createElement("div");
  pick.className = "pick";
  box.append(pick);
  map.append(box);
  let start = null;
  const place = (event) => {
    const frame = box.getBoundingClientRect();
    const across = Math.min(0.999999, Math.max(0, (event.clientX - frame.left) / frame.width));
    const down = Math.min(0.999999, Math.max(0, (event.clientY - frame.top) / frame.height));
    return [across, sides[1].labels ? down : 0.999999 - down];
  };
  const drawn = (event) => {
    const now = place(event);
    picked = sides.map((side, way) => {
      const cells = cellsOf(side);
      const [a, b] = [start[way], now[way]].map((part) => Math.floor(part * cells)).sort((one, two) => one - two);
      return side.labels ? new Set(side.labels.slice(a, b + 1)) : [first(side, a), last(side, b)];
    });
    mark();
    written();
  };
  box.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    start = place(event);
    box.setPointerCapture(event.pointerId);
    drawn(event);
  });
  box.addEventListener("pointermove", (event) => start && drawn(event));
  box.addEventListener("pointerup", (event) => {
    if (!start) return;
    drawn(event);
    start = null;
    share();
  });
  box.addEventListener("pointercancel", () => (start = null));
  mark();
}

function mark() {
  const pick = byId("map").querySelector(".pick");
  if (!pick) return;
  const [[left, right], [from, to]] = sides.map((side, way) => reach(side, picked[way]));
  const per = (part) => `${(100 * part).toFixed(3)}%`;
  pick.style.setProperty("left", per(left));
  pick.style.setProperty("width", per(right - left));
  pick.style.setProperty("top", per(sides[1].labels ? from : 1 - to));
  pick.style.setProperty("height", per(to - from));
}

// Put what was drawn into the fields beside the map.
function written() {
  [...byId("sides").children].forEach((set, place) => {
    const side = sides[place];
    [...set.querySelectorAll("input")].forEach((input, number) => {
      if (side.labels) input.checked = picked[place].has(side.labels[number]);
      else input.value = String(Number(picked[place][number].toPrecision(12)));
    });
  });
}

const quoted = (text, mark) => mark + text.replaceAll(mark, mark + mark) + mark;

function condition() {
  const parts = sides.map((side, place) => {
    const plain = /^[A-Za-z_]\w*$/.test(side.name) && !/^(and|or|not|in|between)$/i.test(side.name);
    const name = plain ? side.name : quoted(side.name, '"');
    if (side.labels) {
      const chosen = side.labels.filter((label) => picked[place].has(label));
      if (!chosen.length) return null;
      return side.complete !== false && chosen.length === side.labels.length ? "" : `${name} in (${chosen.map((label) => quoted(label, "'")).join(", ")})`;
    }
    const [low, high] = picked[place];
    const [least, most] = whole(side);
    if (low > high) return null;
    return low <= least && high >= most ? "" : `${name} between ${low} and ${high}`;
  });
  return parts.includes(null) ? null : parts.filter(Boolean).join(" and ");
}

let timer = null;
function soon() {
  clearTimeout(timer);
  timer = setTimeout(share, 350);
}

let asking = 0;
async function share() {
  const text = condition();
  const own = ++asking;
  if (!text) {
    byId("share").textContent = text === null ? "Nobody is inside: choose some values of both." : "All users are inside.";
    return;
  }
  try {
    const found = await answered(text, byId("question").value);
    if (own === asking) byId("share").replaceChildren(found);
    trouble(null);
  } catch (problem) {
    if (own === asking) trouble(problem);
  }
}

if (token) enter();
else byId("token").focus();

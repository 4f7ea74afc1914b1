// The page for participants: makes a report of what was typed in, shows it to the byte, and sends it.
//
// The client is the one of clients/js. It is loaded when it is needed, so that the page can be read without it.

const byId = (id) => document.getElementById(id);
const facts = JSON.parse(byId("join").dataset.facts);
const bundle = facts.shuffler ? "/browser/dither-client-sealed.min.js" : "/browser/dither-client.min.js";

let device = null;
let record = null;

function problem(error) {
  byId("problem").textContent = error ? error.message : "";
}

async function opened() {
  if (device) return device;
  const { Client } = await import(bundle);
  const token = byId("client-token")?.value || undefined;
  device = await Client.open(`${location.origin}/v1/plans/${facts.plan}`, {
    plan: facts.plan,
    token,
    shuffler: facts.shuffler ?? undefined,
  });
  return device;
}

const field = (name) => byId(`field-${name}`);
const number = (input) => (input.value === "" ? null : Number(input.value));

function answers() {
  const found = {};
  for (const each of facts.attributes) {
    if (each.kind === "keyvalue") {
      const held = {};
      for (let row = 0; row < each.rows; row++) {
        const key = byId(`field-${each.name}-key-${row}`).value;
        const value = number(byId(`field-${each.name}-value-${row}`));
        if (key !== "" && value !== null) held[each.labels ? each.labels[Number(key)] : key] = value;
      }
      found[each.name] = held;
    } else if (each.kind === "numeric" || each.kind === "ordinal") found[each.name] = number(field(each.name));
    else if (each.labels) {
      const place = field(each.name).value;
      found[each.name] = place === "" ? null : each.labels[Number(place)];
    } else found[each.name] = field(each.name).value || null;
  }
  return found;
}

const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");

const written = (value) => (ArrayBuffer.isView(value) ? hex(value) : JSON.stringify(value));

function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

// Every byte of the batch: the report itself is marked.
function picture(report) {
  const dump = element("code");
  dump.className = "hex";
  dump.id = "dump";
  for (const { from, to, means } of report.frame) {
    const own = means.startsWith("the randomized answer");
    const part = element(own ? "mark" : "span", `${hex(report.bytes.slice(from, to))} `);
    part.title = means;
    dump.append(part);
  }
  return dump;
}

function table(name, heads, rows) {
  const head = element("tr", ...heads.map((text) => Object.assign(element("th", text), { scope: "col" })));
  const body = rows.map((cells) => element("tr", ...cells.map((text) => element("td", text))));
  const made = element("table", element("thead", head), element("tbody", ...body));
  made.className = "bytes";
  const box = element("div", made);
  Object.assign(box, { className: "scroll", tabIndex: 0, role: "region", ariaLabel: name });
  return box;
}

function show(report) {
  const told = device.explain();
  if (!report.reports.length) {
    byId("report-told").textContent = "In this round this browser sends nothing: chance has chosen another one for it.";
  } else {
    const about = report.reports.map((each) => each.part).join(", ");
    const drawn = told.answered < told.parts.length ? ", which chance has chosen without looking at your answers" : "";
    const sealed = facts.shuffler ? " They are sealed before they leave, so that the shuffler cannot read them." : "";
    const kept = device.kept === "memory" ? " until the page is closed, since it may keep nothing here" : "";
    byId("report-told").textContent =
      `It answers ${about}${drawn}. These are all ${report.bytes.length} bytes that are sent.${sealed} Whatever you had ` +
      `answered, this report would have been at most ${(Math.ceil(100 * told.odds) / 100).toLocaleString("en")} times as likely or as unlikely. Asked again, ` +
      `this browser repeats it${kept}.`;
  }
  const rows = report.frame.map(({ from, to, means }) => [hex(report.bytes.slice(from, to)), `${from} to ${to - 1}`, means]);
  const values = report.reports.flatMap((each) =>
    Object.entries(each.fields).map(([name, value]) => [each.part, each.mechanism, name, written(value)]));
  byId("report-bytes").replaceChildren(
    ...(rows.length ? [picture(report), table("Your report, byte by byte", ["bytes", "place", "what it is"], rows)] : []),
    ...(values.length ? [table("Your report, field by field", ["answers", "mechanism", "field", "value, after chance had its hand in it"], values)] : []),
  );
  byId("report").hidden = false;
  byId("send").disabled = !rows.length;
  byId("sent").textContent = "";
  byId("report-told").focus();
}

const period = () => (byId("period") ? { period: byId("period").value } : {});

byId("answers-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("make").disabled = true;
  try {
    record = answers();
    await opened();
    show(await device.report(record, period()));
    problem(null);
  } catch (error) {
    problem(error);
  } finally {
    byId("make").disabled = false;
  }
});

byId("send").addEventListener("click", async () => {
  byId("send").disabled = true;
  byId("sent").textContent = "Sending";
  try {
    tell(await device.send(record, period()));
  } catch (error) {
    byId("sent").textContent = "";
    byId("send").disabled = false;
    problem(error);
  }
});

// What became of it. What waits is sent again, the same to the byte, when there is a network, or after a while.
async function tell(delivery) {
  if (delivery.refused) byId("sent").textContent = "The collector did not take it, and has counted nothing.";
  else if (delivery.pending) {
    byId("sent").textContent = `It waits in this browser, and is sent again, the same to the byte (${delivery.trouble}).`;
    await Promise.race([
      new Promise((next) => setTimeout(next, 5000)),
      new Promise((next) => addEventListener("online", next, { once: true })),
    ]);
    tell(await device.flush());
  } else if (delivery.batches) byId("sent").textContent = "Sent. It is counted once. Thank you.";
  else byId("sent").textContent = "This browser has sent its report before. It is counted once.";
}

addEventListener("pagehide", () => device?.beacon());

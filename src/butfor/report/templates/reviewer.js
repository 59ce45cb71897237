/* The reviewer's page: one task at a time, answers kept in the browser, answers.csv at the end. */
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("tasks").textContent);
  const { review, question, labels, written, unsure, columns, tasks } = data;
  const KEY = "butfor review " + review;
  const at = (id) => document.getElementById(id);
  const made = (tag, text, known = {}) => Object.assign(document.createElement(tag), { textContent: text }, known);
  const answers = new Map(); // task id → label
  let shown = 0, kept = true, saved = true;

  function load() {
    answers.clear();
    try {
      const known = new Set(tasks.map(([id]) => id)), given = new Set([...labels, unsure]);
      for (const [id, label] of JSON.parse(localStorage.getItem(KEY) || "[]"))
        if (known.has(id) && given.has(label)) answers.set(id, label);
    } catch { /* what cannot be read is not there; whether anything can be kept, `keep` finds out */ }
  }
  function keep() {
    const lost = "This browser cannot keep your answers: save them before you close the page.";
    try {
      localStorage.setItem(KEY, JSON.stringify([...answers]));
    } catch {
      kept = false;
      Object.assign(at("kept"), { textContent: lost, className: "warning" });
    }
  }

  const buttons = [...labels, unsure].map((label) => {
    const key = label === unsure ? 0 : labels.indexOf(label) + 1;
    const button = made("button", "", { type: "button" });
    if (key < 10) button.append(made("kbd", key), " ");
    button.append(made("span", label));
    button.addEventListener("click", (event) => event.detail > 1 || answer(label)); // a double click is one answer
    return { label, key: String(key), button };
  });
  at("choices").append(...buttons.map(({ button }) => button));
  at("panel").classList.toggle("many", labels.length > 4);
  at("question").textContent = question;

  function cell(value) {
    if (value === null) return made("td", "(missing)", { className: "quiet" });
    if (value === "") return made("td", "(empty)", { className: "quiet" });
    const long = value.length > 600, inner = made("div", value, long ? { className: "long", tabIndex: 0 } : {});
    const td = made("td", "", { dir: "auto" });
    td.append(inner);
    return td;
  }
  function draw() {
    const [id, ...values] = tasks[shown];
    at("place").textContent = "Task " + (shown + 1) + " of " + tasks.length;
    document.querySelector("#row tbody").replaceChildren(...columns.map((name, k) => {
      const row = made("tr", "");
      row.append(made("th", name, { scope: "row", dir: "auto" }), cell(values[k]));
      return row;
    }));
    for (const { label, button } of buttons) button.setAttribute("aria-pressed", answers.get(id) === label);
    const bar = document.querySelector("progress");
    [bar.max, bar.value] = [tasks.length, answers.size];
    at("count").textContent = answers.size + " of " + tasks.length + " answered";
    at("save").classList.toggle("done", answers.size === tasks.length);
    at("delete").hidden = !answers.size;
  }
  const say = (text) => { at("status").textContent = text; };
  function go(to, why) {
    if (to !== shown) scrollTo(0, 0);
    shown = to;
    draw();
    say(why);
  }
  const step = (by) => {
    const to = shown + by;
    go(Math.min(Math.max(to, 0), tasks.length - 1), to < 0 ? "This is the first task." : tasks[to] ? "" : "This is the last task.");
  };
  /* The first task without an answer after this one, then from the start; this one if all have an answer. */
  function open(from) {
    const order = [...tasks.keys()].map((k) => (from + k) % tasks.length);
    return order.find((k) => !answers.has(tasks[k][0])) ?? shown;
  }
  function answer(label) {
    const number = shown + 1;
    answers.set(tasks[shown][0], label);
    saved = false;
    keep();
    const done = answers.size === tasks.length ? " All " + tasks.length + " are answered: save them now." : "";
    go(open(shown + 1), "Task " + number + ": " + label + "." + done);
  }

  const cells = new Map([...labels.map((label, k) => [label, written[k]]), [unsure, unsure], [undefined, ""]]);
  const quoted = (text) => '"' + text.replaceAll('"', '""') + '"';
  at("save").addEventListener("click", () => {
    const lines = tasks.map(([id]) => quoted(id) + "," + quoted(cells.get(answers.get(id))));
    const file = new Blob([["id,label", ...lines, ""].join("\r\n")], { type: "text/csv" });
    const link = made("a", "", { href: URL.createObjectURL(file), download: "answers.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    saved = true;
    const left = tasks.length - answers.size;
    say("answers.csv is saved. " + (left
      ? left + " of " + tasks.length + (left === 1 ? " tasks is" : " tasks are") + " still open: answer them and save again."
      : "Every task has an answer. Return the file to the person who gave you this page."));
  });
  at("delete").addEventListener("click", () => {
    if (!confirm("Delete all answers that this browser keeps for these tasks?")) return;
    answers.clear();
    saved = true;
    keep();
    go(0, "All answers are deleted.");
  });
  at("back").addEventListener("click", () => step(-1));
  at("next").addEventListener("click", () => step(1));
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const held = event.repeat && event.target.closest("button");
    if (held && (event.key === "Enter" || event.key === " ")) event.preventDefault(); // held down is one answer
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      step(event.key === "ArrowLeft" ? -1 : 1);
    }
    // French keyboards have their digits behind Shift: there the key's place counts.
    const digit = /^\d$/.test(event.key) ? event.key : (event.code || "").replace("Digit", "");
    const pressed = buttons.find(({ key }) => key === digit);
    if (pressed && !event.repeat) answer(pressed.label);
  });
  // The same tasks in a second window: both show what was answered in either.
  addEventListener("storage", (event) => { if (event.key === KEY) { load(); draw(); } });
  addEventListener("beforeunload", (event) => { if (!kept && !saved) event.preventDefault(); });

  load();
  keep();
  shown = open(0);
  draw();
  if (answers.size) say(answers.size === tasks.length ? "Every task has an answer: save them." : "Your answers are still here.");
  document.querySelector("main").hidden = false;
})();

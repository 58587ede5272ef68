"use strict";
// Draws the charts, makes tables sort and filter, and keeps a live page up to date. Without it the page is whole too,
// only without drawings.
(() => {
  const read = () => JSON.parse(document.getElementById("chart-specs").textContent);
  const sorted = new Map(); // table → [column, direction], so that a live page keeps the reader's order
  const drawn = new Map(); // chart → [specification as text, its element]
  let specs = read();
  let watcher = null;

  // --- charts ---------------------------------------------------------------------------------------------------

  const options = { ast: true, actions: false, renderer: "svg", tooltip: { theme: "custom" } };

  async function draw(place) {
    const name = place.dataset.chart;
    const text = JSON.stringify(specs[name]);
    if (!window.hastenEmbed || !specs[name] || place.dataset.drawn) return;
    place.dataset.drawn = "yes";
    try {
      await window.hastenEmbed(place, specs[name], { ...options, mode: specs[name].marks ? "vega" : "vega-lite" });
      // The place has a name and a description; the hundreds of marks in it are for the eye.
      place.querySelector("svg").setAttribute("aria-hidden", "true");
      drawn.set(name, [text, place]);
    } catch (error) {
      place.textContent = `This chart could not be drawn (${error.message}); its numbers are in the table below.`;
    }
  }

  // What is in sight first; the rest when nothing else is to do, so that printing finds everything drawn.
  function drawAll() {
    const places = [...document.querySelectorAll("[data-chart]:not([data-drawn])")];
    watcher?.disconnect();
    watcher = new IntersectionObserver(
      (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)),
      { rootMargin: "200px" },
    );
    places.forEach((place) => watcher.observe(place));
    const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
    const next = () => {
      const place = places.shift();
      if (place) idle(() => draw(place).then(next), { timeout: 2000 });
      else document.documentElement.dataset.ready = "yes";
    };
    next();
  }

  // --- tables ---------------------------------------------------------------------------------------------------

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort !== undefined ? Number(cell.dataset.sort) : cell.textContent.trim();
  };

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }

  function sort(table, column, direction) {
    const sign = direction === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
    // What has no value stays at the end, whichever way the others go.
    rows.sort(([a], [b]) => (a === "" || b === "" ? (a === "") - (b === "") : sign * compare(a, b)));
    body.append(...rows.map(([, row]) => row));
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      if (head.firstElementChild) head.setAttribute("aria-sort", place === column ? direction : "none");
    });
    sorted.set(table.id, [column, direction]);
  }

  function makeSortable(table) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!head.textContent) return; // marks of single rows: nothing to sort by, and no name for a button
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () =>
        sort(table, column, head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending"),
      );
    });
    if (sorted.has(table.id)) sort(table, ...sorted.get(table.id));
  }

  function filter(table) {
    const words = (document.querySelector(`[data-filter="${table.id}"]`)?.value ?? "").toLowerCase().split(/\s+/);
    const status = document.querySelector(`select[data-status="${table.id}"]`)?.value ?? "";
    const rows = [...table.tBodies[0].rows];
    rows.forEach((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = Boolean(status && row.dataset.status !== status) || !words.every((word) => text.includes(word));
    });
    const shown = rows.filter((row) => !row.hidden).length;
    const count = document.getElementById(`${table.id}-count`);
    if (count) count.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
  }

  function enliven() {
    document.querySelectorAll("table[id]").forEach(makeSortable);
    document.querySelectorAll(".controls").forEach((controls) => {
      controls.hidden = false;
      const table = document.getElementById(controls.querySelector("[data-filter]").dataset.filter);
      controls.addEventListener("input", () => filter(table));
      if ([...controls.querySelectorAll("input, select")].some((field) => field.value)) filter(table);
    });
    if (window.matchMedia("(max-width: 40rem)").matches) document.getElementById("contents").open = false;
    drawAll();
  }

  // --- a live page ----------------------------------------------------------------------------------------------

  function remembered() {
    return {
      open: [...document.querySelectorAll("details[id]")].map((details) => [details.id, details.open]),
      typed: [...document.querySelectorAll("input[id], select[id]")].map((field) => [field.id, field.value]),
      focus: document.activeElement?.id,
    };
  }

  function restore(before) {
    before.typed.forEach(([id, value]) => document.getElementById(id) && (document.getElementById(id).value = value));
    // A chart that has not changed keeps its drawing.
    for (const [name, [text, element]] of drawn) {
      const place = document.querySelector(`[data-chart="${CSS.escape(name)}"]`);
      if (place && JSON.stringify(specs[name]) === text) place.replaceWith(element);
      else drawn.delete(name);
    }
    enliven();
    before.open.forEach(([id, open]) => document.getElementById(id) && (document.getElementById(id).open = open));
    if (before.focus) document.getElementById(before.focus)?.focus({ preventScroll: true });
  }

  function renew(news) {
    const before = remembered();
    specs = news.charts;
    document.getElementById("page").innerHTML = news.body;
    restore(before);
  }

  async function follow(signature) {
    const status = document.getElementById("live-status");
    let wait = 1500;
    for (;;) {
      await new Promise((done) => setTimeout(done, wait));
      try {
        const answer = await fetch(`content?since=${encodeURIComponent(signature)}`);
        if (answer.status === 200) {
          const news = await answer.json();
          signature = news.signature;
          renew(news);
        }
        wait = 1500;
        status.textContent = "Live: follows the session";
      } catch {
        wait = Math.min(wait * 2, 30000);
        status.textContent = "The command has ended, or cannot be reached; this is the last state";
      }
    }
  }

  enliven();
  if (document.body.dataset.live) follow(document.body.dataset.live);
})();

"use strict";
// Finds titles and claims that have all the words, as they are typed. Text is only ever text.
(() => {
  const entries = (window.theorylabEntries || []).map(([title, where, url]) => ({
    title, where, url, text: `${title} ${where}`.toLowerCase(),
  }));
  const most = 50;
  const field = document.getElementById("words");
  const number = document.getElementById("number");
  const list = document.getElementById("found");

  function row({ title, where, url }) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = url;
    link.textContent = title;
    const note = document.createElement("small");
    note.textContent = ` ${where}`;
    item.append(link, note);
    return item;
  }

  function find() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length ? entries.filter((each) => words.every((word) => each.text.includes(word))) : [];
    list.replaceChildren(...found.slice(0, most).map(row));
    const more = found.length > most ? `, the first ${most} are shown` : "";
    number.textContent = words.length ? `${found.length} found${more}` : "";
  }

  field.addEventListener("input", find);
  document.querySelector(".search").hidden = false;
})();

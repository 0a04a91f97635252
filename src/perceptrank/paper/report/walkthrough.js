"use strict";
document.querySelectorAll("figure.walk").forEach(walk => {
  const rounds = [...walk.querySelectorAll(".round")];
  const slider = walk.querySelector("input");
  const [before, after] = walk.querySelectorAll("button");
  const kinds = [...walk.querySelectorAll(".kinds i")];

  function show(number) {
    slider.value = number;
    slider.setAttribute("aria-valuetext", rounds[number - 1].querySelector("h3").textContent);
    rounds.forEach((one, k) => one.classList.toggle("now", k === number - 1));
    kinds.forEach((one, k) => one.classList.toggle("now", k === number - 1));
    // A button that is disabled would lose the focus.
    before.setAttribute("aria-disabled", number === 1);
    after.setAttribute("aria-disabled", number === rounds.length);
  }

  slider.addEventListener("input", () => show(Number(slider.value)));
  before.addEventListener("click", () => show(Math.max(1, Number(slider.value) - 1)));
  after.addEventListener("click", () => show(Math.min(rounds.length, Number(slider.value) + 1)));
  kinds.forEach((one, k) => one.addEventListener("click", () => show(k + 1)));
  walk.querySelector(".steps").hidden = false;
  walk.classList.add("live");
  show(Number(slider.getAttribute("value")));  // a reloaded page may have kept another
});

"use strict";
// The switch between light and dark. Without it a page follows the system; scripts that draw listen to the event "theme".
(() => {
  const root = document.documentElement;
  const button = document.querySelector("button.theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  // Pages opened from disk may have no storage: then the choice lasts as long as the page.
  const storage = (use) => { try { return use(localStorage); } catch { return null; } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    document.dispatchEvent(new Event("theme"));
  };
  const kept = storage((local) => local.getItem("fencepost-theme"));
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    storage((local) => local.setItem("fencepost-theme", root.dataset.theme));
    show();
  });
  system.addEventListener("change", show);
  show();
})();

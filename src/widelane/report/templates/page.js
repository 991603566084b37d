// The page around the timeline: the theme, the copy buttons, and printing.
(() => {
  "use strict";
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const nameTheme = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
    root.dispatchEvent(new Event("theme"));
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();

  for (const button of document.querySelectorAll(".copy")) {
    const code = button.previousElementSibling;
    button.hidden = false;
    const done = () => {
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    };
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        done();
      } catch { // no clipboard here (a page that came over plain HTTP): copy the selection, or leave it selected
        getSelection().selectAllChildren(code);
        if (document.execCommand("copy")) done();
      }
    });
  }

  // Paper has no folds: open them, and close again what was closed.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("#made details:not([open])")];
    for (const one of folded) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of folded) one.open = false; });
})();

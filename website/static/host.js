/* Shows the course's widgets in a page without Python: it is to each what anywidget is in a notebook. Their state and
 * front ends are scripts, not fetched, so that the pages work from a folder too. */
(() => {
  const { documentElement: root, body } = document;
  const theme = () => body.setAttribute("data-jp-theme-light", String(root.dataset.theme !== "dark")); // widgets heed it
  new MutationObserver(theme).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  theme();

  // By this mark, which nbconvert's pages have too, a front end sees that there is no Python.
  const mark = document.createElement("script");
  mark.type = "application/vnd.jupyter.widget-state+json";
  document.head.append(mark);

  /** What a front end gets in Python's place: traits, and who heeds them. */
  const modelOf = (state) => {
    const heard = {};
    return {
      get: (name) => state[name],
      set(name, value) {
        if (state[name] === value) return;
        state[name] = value;
        for (const call of [...(heard[`change:${name}`] ?? [])]) call();
      },
      on: (event, call) => (heard[event] ??= []).push(call),
      off: (event, call) => (heard[event] = (heard[event] ?? []).filter((one) => one !== call)),
      save_changes() {},
      send() {},
    };
  };
  const bytes = (base64) => new DataView(Uint8Array.from(atob(base64), (one) => one.charCodeAt(0)).buffer);
  const revived = (value) => {
    if (value === null || typeof value !== "object") return value;
    if (typeof value.$bytes === "string") return bytes(value.$bytes);
    for (const [name, one] of Object.entries(value)) value[name] = revived(one);
    return value;
  };

  const frontEnds = {};
  globalThis.headroom = {
    /** A front end has come. */
    frontEnd(name, esm, css) {
      if (frontEnds[name]) return;
      const style = document.createElement("style");
      style.textContent = css;
      document.head.append(style);
      frontEnds[name] = import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
    },
    /** A widget's state has come: show it in its place. */
    async widget(id, name, state) {
      const { default: widget } = await frontEnds[name];
      const model = modelOf(revived(state));
      for (const el of document.querySelectorAll(`[data-widget="${id}"]`)) {
        el.replaceChildren();
        widget.render({ model, el });
      }
    },
  };

  // A formula that is wider than the page is scrolled with the keys too.
  addEventListener("load", () => {
    for (const formula of document.querySelectorAll(".headroom-formula")) {
      if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
    }
  });
})();

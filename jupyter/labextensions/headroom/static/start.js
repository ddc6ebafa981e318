/* The course's part of JupyterLab: a page with the map of the course, what is done, and a link to each notebook. And a
 * notebook that was only opened is not taken for changed.
 *
 * JupyterLab loads it as it is, without a build: it asks for what `extension` gives, and hands over, in `scope`, the
 * packages that it shares. headroom/start_page.py answers what the page shows. */
(() => {
  const OPEN = "headroom:map";
  const NARROW = 760; // pixels of a window that has no room for the file browser beside a notebook
  const here = /** @type {HTMLScriptElement} */ (document.currentScript).src;

  /**
   * A lecture or a lab, as the server tells of it.
   * @typedef {{ name: string, lab: boolean, title: string, builds: string, minutes: string, path: string,
   *   needs: string[], place: [number, number] | null, done: number, of: number }} Piece
   */

  /**
   * @param {string} tag
   * @param {Record<string, string>} [attributes]
   * @param {(Node | string)[]} children
   */
  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };

  /** @param {Piece} piece */
  const called = ({ name, lab }) => `${lab ? "Lab" : "Lecture"} ${Number(name.slice(-2))}`;

  /** How far one is, in words; empty where nothing was done. @param {Piece} piece */
  const standing = ({ lab, done, of }) => {
    if (!done) return "";
    const [what, all] = lab ? ["checks passed", "✓ all checks passed"] : ["cells run", "✓ run to the end"];
    return done === of ? all : `${done} of ${of} ${what}`;
  };

  /** A link that opens a notebook beside the page. @param {Piece} piece @param {string} words @param {string} base */
  const link = (piece, words, base) =>
    element("a", { href: `${base}lab/tree/${piece.path}`, "data-path": piece.path }, words);

  /** @param {Piece} piece @param {string} base */
  const box = (piece, base) => {
    const { name, lab, title, builds, minutes, needs } = piece;
    const state = standing(piece);
    const shown = element(
      "div",
      { class: lab ? "headroom-lab" : "headroom-lecture", "data-piece": name },
      link(piece, `${called(piece)} · ${title}`, base),
      element("span", { class: "headroom-minutes" }, minutes && `${minutes} min`),
    );
    if (!lab) {
      const before = needs.map((one) => `lecture ${Number(one)}`).join(" and ");
      shown.append(element("p", {}, builds, element("span", { class: "headroom-unseen" }, before && `; after ${before}`)));
    }
    if (state) shown.append(element("span", { class: "headroom-state" }, state));
    return shown;
  };

  /** The page's contents. @param {{ pieces: Piece[], next: string[], help: string }} told @param {string} base */
  const page = ({ pieces, next, help }, base) => {
    const map = element("ul", { class: "headroom-map" });
    let place = map;
    for (const piece of pieces) {
      if (piece.place) {
        const [row, column] = piece.place;
        place = element("li", { style: `--row: ${row + 1}; --column: ${column + 1}` });
        map.append(place);
      }
      place.append(box(piece, base));
    }
    const coming = pieces.filter(({ name }) => next.includes(name));
    const toHelp = element("a", { href: `${base}lab/tree/${help}`, "data-path": help }, "for students");
    const links = coming.flatMap((one, i) => [i ? " and " : "Next: ", link(one, `${called(one)}, ${one.title}`, base)]);
    return [
      element("h1", {}, "Headroom: learn the Transformer by building it"),
      element("p", { class: "headroom-next" }, ...links, links.length ? "." : "Everything is done."),
      map,
      ...(help ? [element("p", { class: "headroom-help" }, "A cell that hangs, a lab to start over, handing in: ", toHelp, ".")] : []),
    ];
  };

  /** Draw an arrow from each lecture to those that need it. @param {Element} map @param {Piece[]} pieces */
  const arrows = (map, pieces) => {
    map.querySelector("svg")?.remove();
    if (getComputedStyle(map).display !== "grid") return; // a list is in order anyway
    const frame = map.getBoundingClientRect();
    const boxOf = (/** @type {string} */ name) => {
      const inside = map.querySelector(`[data-piece="${name}"]`)?.parentElement?.getBoundingClientRect();
      if (!inside) return null;
      const { width } = inside;
      const [left, top] = [inside.left - frame.left, inside.top - frame.top];
      return { left, top, width, right: left + width, bottom: top + inside.height, middle: left + width / 2 };
    };
    const drawn = pieces.flatMap((piece) =>
      (piece.lab ? [] : piece.needs).map((name) => {
        const [from, to] = [boxOf(name), boxOf(piece.name)];
        if (!from || !to) return "";
        if (Math.abs(from.top - to.top) < 2) {
          const ends = to.left > from.left ? [from.right, to.left - 2] : [from.left, to.right + 2];
          return `<path d="M${ends[0]} ${from.top + 24}H${ends[1]}"/>`;
        }
        const lean = 0.3 * from.width * Math.sign(Math.round(to.left - from.left)); // aside from the side it leads to
        return `<path d="M${from.middle + lean} ${from.bottom}L${to.middle - lean} ${to.top - 2}"/>`;
      }),
    );
    map.insertAdjacentHTML(
      "afterbegin",
      `<svg aria-hidden="true"><marker id="headroom-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"
        markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8Z"/></marker><g>${drawn.join("")}</g></svg>`,
    );
  };

  /** A notebook is as it was if a kernel has only told its language to it, or its widgets have only come back.
   * @param {any} panel */
  const keepUnchanged = ({ context, node }) => {
    const { model } = context;
    let changed = false; // by more than that
    let told = false; // its language, just now
    model.metadataChanged.connect((/** @type {any} */ _, /** @type {{ key: string }} */ { key }) => {
      if (key !== "language_info" || model.dirty) return;
      told = true;
      queueMicrotask(() => (told = model.dirty = false));
    });
    void context.ready.then(() => {
      model.contentChanged.connect(() => (changed ||= !told));
      for (const acted of ["pointerdown", "keydown"]) node.addEventListener(acted, () => (changed = true), true);
      model.stateChanged.connect((/** @type {any} */ _, /** @type {{ name: string, newValue: any }} */ state) => {
        if (state.name === "dirty" && state.newValue && !changed) queueMicrotask(() => (model.dirty = false));
      });
    });
  };

  /** @type {Record<string, any>} */
  let scope = {};
  /** What a package that JupyterLab shares gives. @param {string} name */
  const shared = async (name) => {
    const [version] = /** @type {any[]} */ (Object.values(scope[name]));
    return (await version.get())();
  };

  /** The page as JupyterLab shows it; it asks anew whenever it comes to the front.
   * @param {any} Widget @param {any} ServerConnection */
  const startOn = (Widget, ServerConnection) => {
    return class Start extends Widget {
      /** @param {any} app */
      constructor(app) {
        super({ node: element("div", { tabindex: "-1" }) });
        this.app = app;
        this.id = OPEN;
        this.title.label = "Course map";
        this.title.closable = true;
        this.addClass("headroom-start");
        /** @type {Piece[]} */
        this.pieces = [];
        this.node.addEventListener("click", this);
        this.observer = new ResizeObserver(() => this.draw());
        this.observer.observe(this.node);
        this.asked = () => void this.ask();
        addEventListener("focus", this.asked);
      }

      /** A click on a notebook's link. @param {MouseEvent} event */
      handleEvent(event) {
        const path = /** @type {Element} */ (event.target).closest("a")?.getAttribute("data-path");
        if (!path || event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        const rendered = path.endsWith(".md") ? { factory: "Markdown Preview" } : {};
        void this.app.commands.execute("docmanager:open", { path, ...rendered });
      }

      onAfterShow() {
        this.asked();
      }

      /** A closed page is gone; the launcher makes another one. @param {any} message */
      onCloseRequest(message) {
        super.onCloseRequest(message);
        this.dispose();
      }

      onActivateRequest() {
        this.node.focus();
      }

      async ask() {
        if (!this.isVisible) return;
        const settings = this.app.serviceManager.serverSettings;
        const { baseUrl } = settings;
        // Not `fetch` alone: a hub's server answers only who shows that the page is its own.
        const answer = await ServerConnection.makeRequest(`${baseUrl}headroom/course`, {}, settings);
        if (this.isDisposed) return;
        if (!answer.ok) {
          if (!this.pieces.length) this.node.textContent = `The map cannot be shown: the server answers ${answer.status}.`;
          return;
        }
        const told = await answer.json();
        this.pieces = told.pieces;
        const focused = document.activeElement?.closest(".headroom-start [data-path]")?.getAttribute("data-path");
        this.node.replaceChildren(element("div", {}, ...page(told, baseUrl)));
        /** @type {HTMLElement | null} */ (this.node.querySelector(`[data-path="${focused}"]`))?.focus();
        this.draw();
      }

      draw() {
        const map = this.node.querySelector(".headroom-map");
        if (map) arrows(map, this.pieces);
      }

      dispose() {
        removeEventListener("focus", this.asked);
        this.observer.disconnect();
        super.dispose();
      }
    };
  };

  /** What JupyterLab does with the page when it begins. @param {any} Start */
  const activating = (Start) => {
    /** @param {any} app @param {any} notebooks @param {any} launcher */
    return (app, notebooks, launcher) => {
      const style = element("link", { rel: "stylesheet", href: here.replace(/\.js$/, ".css") });
      // The file browser was laid out without it.
      const laid = new Promise((done) => style.addEventListener("load", done));
      void Promise.all([app.restored, laid]).then(() => [...app.shell.widgets("left")][0]?.parent.fit());
      document.head.append(style);
      notebooks.widgetAdded.connect((/** @type {any} */ _, /** @type {any} */ panel) => keepUnchanged(panel));

      /** @type {any} */
      let start = null;
      const show = (/** @type {boolean} */ front) => {
        if (!start || start.isDisposed) {
          start = new Start(app);
          const [first] = app.shell.widgets("main");
          const before = first ? { ref: first.id, mode: "tab-before" } : {};
          app.shell.add(start, "main", { ...before, activate: front });
        } else if (front) app.shell.activateById(start.id);
      };
      app.commands.addCommand(OPEN, {
        label: "Course map",
        caption: "What there is, what is done, what comes next",
        execute: () => show(true),
      });
      launcher?.add({ command: OPEN, category: "Other", rank: 0 });
      void app.restored.then(() => {
        show(!/\/tree\//.test(location.pathname));
        const narrow = matchMedia(`(width < ${NARROW}px)`);
        const fit = () => void (narrow.matches && app.shell.collapseLeft());
        narrow.addEventListener("change", fit);
        fit();
      });
    };
  };

  const extension = async () => {
    const { Widget } = await shared("@lumino/widgets");
    const { ServerConnection } = await shared("@jupyterlab/services");
    const { INotebookTracker } = await shared("@jupyterlab/notebook");
    const { ILauncher } = await shared("@jupyterlab/launcher");
    return {
      id: "headroom:start",
      autoStart: true,
      requires: [INotebookTracker],
      optional: [ILauncher],
      activate: activating(startOn(Widget, ServerConnection)),
    };
  };

  const jupyterLab = /** @type {any} */ (globalThis);
  (jupyterLab._JUPYTERLAB ??= {}).headroom = {
    /** @param {Record<string, any>} given */
    init: (given) => void (scope = given),
    /** @param {string} module */
    get: async (module) => {
      if (module !== "./extension") throw new Error(`headroom has no ${module}`);
      const plugin = await extension();
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();

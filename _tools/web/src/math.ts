// TeX to MathML elements by Temml, loaded with the first formula. It makes DOM nodes, no HTML, and
// trusts nothing: no links, no classes, no images in formulas.

let loading: Promise<any> | undefined;

// drawMath puts a formula into an element, and reports whether it could.
export async function drawMath(tex: string, display: boolean, into: HTMLElement): Promise<boolean> {
  if (tex.length > 10_000 || typeof MathMLElement === "undefined") return false;
  const made = document.createElement("span");
  try {
    loading ??= import("temml").then((module) => module.default);
    const temml = await loading;
    temml.render(tex, made, { displayMode: display, throwOnError: true, trust: false, strict: false, maxExpand: 500, maxSize: [50, 50] });
  } catch {
    return false;
  }
  into.replaceChildren(...made.childNodes);
  return true;
}

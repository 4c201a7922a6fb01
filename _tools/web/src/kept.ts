// Small values that outlive the page: preferences and drafts. A browser that keeps nothing, as
// in some private windows, gets a page that forgets.

export function keptText(name: string): string {
  try {
    return localStorage.getItem("ossian." + name) ?? "";
  } catch {
    return "";
  }
}

export function keepText(name: string, text: string): void {
  try {
    if (text === "") localStorage.removeItem("ossian." + name);
    else localStorage.setItem("ossian." + name, text);
  } catch {
    // full or forbidden: forgotten with the page
  }
}

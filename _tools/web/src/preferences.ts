// How this browser shows the page: theme, size of text, keys. Nothing of it is sent.

import { Cell } from "./cell";
import { keepText, keptText } from "./kept";

export type Theme = "system" | "light" | "dark";

export interface Preferences {
  theme: Theme;
  size: "small" | "normal" | "large" | "larger";
  enter: "send" | "line"; // what Enter does in the box
  reasoning: boolean; // work is open from the beginning
}

// touch is whether a keyboard on the screen would cover half of it.
export const touch = typeof matchMedia !== "undefined" && matchMedia("(hover: none) and (pointer: coarse)").matches;
const usual: Preferences = { theme: "system", size: "normal", enter: touch ? "line" : "send", reasoning: false };

function kept(): Preferences {
  try {
    const given = JSON.parse(keptText("preferences") || "{}");
    return {
      theme: ["system", "light", "dark"].includes(given.theme) ? given.theme : usual.theme,
      size: ["small", "normal", "large", "larger"].includes(given.size) ? given.size : usual.size,
      enter: ["send", "line"].includes(given.enter) ? given.enter : usual.enter,
      reasoning: given.reasoning === true,
    };
  } catch {
    return usual;
  }
}

export const preferences = new Cell<Preferences>(kept());

export function prefer(change: Partial<Preferences>): void {
  preferences.set({ ...preferences.get(), ...change });
  keepText("preferences", JSON.stringify(preferences.get()));
  show();
}

const dark = typeof matchMedia !== "undefined" ? matchMedia("(prefers-color-scheme: dark)") : undefined;

// isDark is which theme is shown now.
export function isDark(): boolean {
  const { theme } = preferences.get();
  return theme === "system" ? !!dark?.matches : theme === "dark";
}

// show puts the preferences on the page, from the beginning and when the system's theme changes.
export function show(): void {
  const root = document.documentElement;
  root.dataset.theme = isDark() ? "dark" : "light";
  root.dataset.size = preferences.get().size;
}

dark?.addEventListener("change", () => {
  show();
  preferences.tell();
});

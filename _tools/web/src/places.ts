// Where the page is and which dialogs are open.

import { Cell } from "./cell";

export const keyDialog = new Cell(false);
export const shortcutsDialog = new Cell(false);
export const drawer = new Cell(false); // the sidebar, where the page is narrow

export interface Place {
  view: "chat" | "settings" | "other";
  id: string; // conversation
  path: string; // other
  fill?: string; // text for the box
}

// placeOf reads a fragment. A link may fill the box; it never sends.
export function placeOf(hash: string): Place {
  const query = /^#(?:\/?\?)?q=(.*)$/s.exec(hash);
  if (query) return { view: "chat", id: "", path: "", fill: decoded(query[1]) };
  const chat = /^#\/c\/([A-Za-z0-9_-]{1,64})$/.exec(hash);
  if (chat) return { view: "chat", id: chat[1], path: "" };
  if (hash === "#/settings") return { view: "settings", id: "", path: hash };
  if (hash === "" || hash === "#" || hash === "#/") return { view: "chat", id: "", path: "#/" };
  return { view: "other", id: "", path: hash };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replace(/\+/g, " "));
  } catch {
    return text;
  }
}

export const place = new Cell<Place>(placeOf(typeof location === "undefined" ? "" : location.hash));

const labels: Record<string, string> = {
  temperature: "the temperature", top_p: "top-p", top_k: "top-k", min_p: "min-p", seed: "the seed", max_output_tokens: "the output limit",
  instructions: "the instructions", "reasoning.effort": "the effort", reasoning: "the effort", tools: "the tools", model: "the model",
};

// settingsAt names the setting that an error's param is about, or nothing.
export function settingsAt(param: string | undefined): string | undefined {
  if (!param) return undefined;
  return labels[param] ?? labels[param.split(/[.[]/, 1)[0]];
}

// Views besides the chat, each loaded when it is first opened. A view is a component without
// properties.

import type { ComponentType } from "preact";

export interface View {
  path: string; // of the fragment
  title: string;
  testid: string; // of its link
  icon: "pulse" | "cube";
  load: () => Promise<ComponentType>;
}

export const views: View[] = [
  { path: "#/live", title: "Live", testid: "live-link", icon: "pulse", load: () => import("./live").then((module) => module.LiveView) },
  { path: "#/model", title: "Model", testid: "model-link", icon: "cube", load: () => import("./model").then((module) => module.ModelView) },
];

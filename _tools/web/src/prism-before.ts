// Prism looks at this when it is loaded: it must not search the page for code by itself.
(globalThis as any).Prism = { manual: true, disableWorkerMessageHandler: true };
export {};

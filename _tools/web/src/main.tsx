// The page: where it is, what surrounds the views, and keys that work everywhere.

import "./preferences";
import { type ComponentType, render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { info, request } from "./api";
import { useCell } from "./cell";
import { ChatView } from "./chatview";
import { chats } from "./chats";
import { Confirm, IconButton, save, useNarrow } from "./controls";
import { KeyDialog, Shortcuts } from "./dialogs";
import { shown } from "./format";
import { drawer, place, placeOf, shortcutsDialog } from "./places";
import { show } from "./preferences";
import { SettingsView } from "./settings";
import { begin, Sidebar } from "./sidebar";
import { trouble } from "./store";
import { views } from "./views";

function Page() {
  const at = useCell(place);
  const open = useCell(chats.open);
  const loaded = useCell(chats.loaded);
  const narrow = useNarrow();
  const covered = useCell(drawer) && narrow;
  useEffect(() => {
    if (loaded && at.view === "chat") void chats.show(at.id);
  }, [at, loaded]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>Skip to the chat</a>
      <Sidebar />
      {covered ? <div class="shade" onClick={() => drawer.set(false)} /> : null}
      <div class="frame" inert={covered}>
        <header class="top">
          <IconButton icon="menu" label="Chats" testid="menu" onClick={() => drawer.set(true)} />
          <span class="top-title">{at.view === "chat" ? shown(open?.title ?? "Ossian") : "Ossian"}</span>
          <IconButton icon="plus" label="New chat" onClick={begin} />
        </header>
        <Banners />
        <main id="main" tabIndex={-1}>
          {at.view === "chat" ? <ChatView /> : at.view === "settings" ? <SettingsView /> : <Other path={at.path} />}
        </main>
      </div>
      <KeyDialog />
      <Shortcuts />
      <Confirm />
      <Said />
    </>
  );
}

// Said is what a screen reader is told: beginnings, ends and errors, no tokens.
function Said() {
  return <div class="sr" role="status" aria-live="polite" data-testid="said">{shown(useCell(chats.said))}</div>;
}

// Banners are lines above everything: what is wrong with the server or with keeping chats.
function Banners() {
  const kept = useCell(trouble);
  const ready = useCell(chats.ready);
  const stale = useStale();
  return (
    <>
      {kept ? (
        <div class="banner" role="status" data-testid="banner">
          <span>{shown(kept)} Chats of this tab are lost with it unless you export them.</span>
          <button type="button" class="secondary" onClick={() => chats.exported().then((text) => save("ossian-chats.json", text), (error) => trouble.set(`Nothing can be read: ${error.message}.`))}>Export</button>
        </div>
      ) : null}
      {ready === "gone" ? <div class="banner" role="status" data-testid="banner"><span>The server does not answer. Trying again.</span></div> : null}
      {ready === "loading" ? <div class="banner calm" role="status" data-testid="banner"><span>The model is loading. What you send is answered when it is ready.</span></div> : null}
      {stale ? <div class="banner calm" role="status" data-testid="banner"><span>The server was replaced by another version.</span><button type="button" class="secondary" onClick={() => location.reload()}>Reload</button></div> : null}
    </>
  );
}

// useStale is whether the server is another than the one this page came from.
function useStale(): boolean {
  const ready = useCell(chats.ready);
  const first = useRef("");
  const [stale, setStale] = useState(false);
  useEffect(() => {
    if (ready !== "ready") return undefined;
    const ask = () => {
      if (document.hidden) return;
      // Who may not ask for one thing is not asked about another.
      info().then(() => request("/version", {}, true)).then((answer) => answer.json()).then(({ version }) => {
        first.current ||= String(version);
        setStale(first.current !== String(version));
      }, () => {});
    };
    ask();
    document.addEventListener("visibilitychange", ask);
    return () => document.removeEventListener("visibilitychange", ask);
  }, [ready]);
  return stale;
}

// Other is a view that is loaded when it is first opened.
function Other({ path }: { path: string }) {
  const view = views.find((v) => v.path === path);
  const [made, setMade] = useState<{ path: string; View: ComponentType } | undefined>();
  const [failed, setFailed] = useState("");
  useEffect(() => {
    setFailed("");
    document.title = (view?.title ?? "Not found") + " \u00b7 Ossian";
    let current = true;
    view?.load().then((View) => current && setMade({ path, View }), (error) => current && setFailed(String(error.message)));
    return () => {
      current = false;
    };
  }, [path]);
  if (!view) return <div class="page-text"><h1>Nothing is here</h1><p><a href="#/">Begin a new chat</a></p></div>;
  if (failed) return <div class="page-text"><h1>{view.title}</h1><p role="alert">This view could not be loaded: {shown(failed)}</p></div>;
  return made?.path === path ? <made.View /> : <div class="page-text" aria-busy="true" />;
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function keys(event: KeyboardEvent): void {
  if (event.isComposing || document.querySelector("dialog[open]")) return;
  const command = event.ctrlKey || event.metaKey;
  if (event.key === "Escape") chats.stop();
  else if (command && event.shiftKey && event.key.toLowerCase() === "o") begin();
  else if (command && !event.shiftKey && event.key.toLowerCase() === "k") {
    drawer.set(true);
    setTimeout(() => document.querySelector<HTMLElement>("[data-testid=search]")?.focus());
  } else if (event.key === "?" && !typing(event.target)) shortcutsDialog.set(true);
  else return;
  event.preventDefault();
}

show();
addEventListener("hashchange", () => {
  drawer.set(false);
  place.set(placeOf(location.hash));
});
addEventListener("keydown", keys);
const root = document.getElementById("page")!;
root.replaceChildren();
render(<Page />, root);
void chats.start();

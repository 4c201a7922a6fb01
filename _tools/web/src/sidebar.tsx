// The sidebar: conversations, search, and the way to the other views.

import { useEffect, useRef, useState } from "preact/hooks";
import { useCell } from "./cell";
import { chats } from "./chats";
import { confirmed, IconButton, save, useNarrow } from "./controls";
import { shown } from "./format";
import { Icon } from "./icons";
import { drawer, place, shortcutsDialog } from "./places";
import { isDark, prefer, preferences } from "./preferences";
import type { Conversation } from "./tree";
import { views } from "./views";

// groupsOf are the parts of the list with their headings: what is pinned, then the others by age.
function groupsOf(list: Conversation[]): [string, Conversation[]][] {
  const pinned = list.filter((c) => c.pinned);
  const others = ages(list.filter((c) => !c.pinned));
  return pinned.length > 0 ? [["Pinned", pinned], ...others] : others;
}

function ages(list: Conversation[]): [string, Conversation[]][] {
  const today = new Date();
  today.setHours(0, 0, 0, 0);
  const day = 86_400_000;
  const groups: [string, Conversation[]][] = [["Today", []], ["Yesterday", []], ["Last 7 days", []], ["Earlier", []]];
  for (const c of list) {
    const before = today.getTime() - c.changed;
    groups[before <= 0 ? 0 : before <= day ? 1 : before <= 7 * day ? 2 : 3][1].push(c);
  }
  return groups.filter(([, group]) => group.length > 0);
}

const SHOWN = 200; // conversations that are listed before somebody asks for more

export function Sidebar() {
  const all = useCell(chats.list);
  const at = useCell(place);
  useCell(preferences);
  const open = useCell(drawer);
  const [query, setQuery] = useState("");
  const [found, setFound] = useState<Set<string> | undefined>();
  const [most, setMost] = useState(SHOWN);
  useEffect(() => {
    if (query.trim() === "") {
      setFound(undefined);
      return undefined;
    }
    let current = true;
    const timer = setTimeout(() => chats.search(query).then((ids) => current && setFound(ids)), 150);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [query, all]);
  const listed = found ? all.filter((c) => found.has(c.id)) : all;
  const narrow = useNarrow();
  const panel = useRef<HTMLElement>(null);
  const back = useRef(false); // whether the focus goes to what has opened the drawer
  useEffect(() => {
    if (narrow && open) panel.current?.querySelector<HTMLElement>("a, button")?.focus();
    if (!open && back.current) document.querySelector<HTMLElement>("[data-testid=menu]")?.focus(); // nothing covers it any more
    back.current = false;
  }, [open, narrow]);
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Escape" && narrow) {
      event.stopPropagation();
      back.current = true;
      drawer.set(false);
    }
  };
  return (
    <aside ref={panel} class={open ? "sidebar open" : "sidebar"} inert={narrow && !open} aria-label="Chats" onKeyDown={keys}>
      <div class="brand">
        <a href="#/" class="name" onClick={() => drawer.set(false)}>Ossian</a>
        <IconButton icon={isDark() ? "sun" : "moon"} label={isDark() ? "Light theme" : "Dark theme"} testid="theme" onClick={() => prefer({ theme: isDark() ? "light" : "dark" })} />
      </div>
      <a href="#/" class="new-chat" data-testid="new-chat" onClick={() => begin()}><Icon name="plus" />New chat</a>
      <label class="search">
        <Icon name="search" />
        <input type="search" placeholder="Search chats" aria-label="Search chats" data-testid="search" value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
      </label>
      <nav class="list" aria-label="Conversations">
        {listed.length === 0 ? <p class="faint none">{query.trim() === "" ? "No chats yet" : "Nothing found"}</p> : null}
        {groupsOf(listed.slice(0, most)).map(([title, group]) => (
          <section key={title}>
            <h2>{title}</h2>
            <ul>{group.map((c) => <Row key={c.id} conversation={c} current={at.view === "chat" && at.id === c.id} />)}</ul>
          </section>
        ))}
        {listed.length > most ? <button type="button" class="quiet more" onClick={() => setMost(most * 5)}>Show more</button> : null}
      </nav>
      <nav class="places" aria-label="Views">
        {views.map((view) => <a key={view.path} href={view.path} data-testid={view.testid} aria-current={at.path === view.path ? "page" : undefined} onClick={() => drawer.set(false)}><Icon name={view.icon} />{view.title}</a>)}
        <a href="#/settings" data-testid="settings" aria-current={at.view === "settings" ? "page" : undefined} onClick={() => drawer.set(false)}><Icon name="gear" />Settings</a>
        <button type="button" onClick={() => shortcutsDialog.set(true)}><Icon name="help" />Shortcuts</button>
      </nav>
    </aside>
  );
}

// begin goes to a new chat and into its box.
export function begin(): void {
  drawer.set(false);
  location.hash = "#/";
  setTimeout(() => document.querySelector<HTMLElement>("[data-testid=box]")?.focus());
}

function Row({ conversation, current }: { conversation: Conversation; current: boolean }) {
  const [renaming, setRenaming] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), [renaming]);
  useCell(chats.activity);
  const running = chats.running(conversation.id) !== undefined;
  if (renaming) {
    const done = (keep: boolean) => {
      if (keep && field.current) chats.rename(conversation, field.current.value);
      setRenaming(false);
    };
    return (
      <li class="row">
        <input
          ref={field}
          aria-label="Title"
          data-testid="rename-input"
          defaultValue={conversation.title}
          maxLength={200}
          onBlur={() => done(true)}
          onKeyDown={(event) => {
            if (event.key === "Enter") done(true);
            if (event.key === "Escape") {
              event.stopPropagation();
              done(false);
            }
          }}
        />
      </li>
    );
  }
  const remove = async () => {
    if (await confirmed("Delete this chat?", `"${shown(conversation.title)}" is deleted from this browser and cannot be brought back.`, "Delete")) await chats.remove([conversation.id]);
  };
  return (
    <li class={current ? "row current" : "row"}>
      <a href={"#/c/" + conversation.id} data-testid="conversation" aria-current={current ? "page" : undefined} title={shown(conversation.title)} onClick={() => drawer.set(false)}>
        {running ? <span class="pulse" role="img" aria-label="being answered" /> : null}
        <span class="title">{shown(conversation.title)}</span>
      </a>
      <span class="row-tools">
        <IconButton icon="pin" label="Pin" pressed={conversation.pinned === true} testid="pin" onClick={() => chats.pin(conversation, !conversation.pinned)} />
        <IconButton icon="pencil" label="Rename" testid="rename" onClick={() => setRenaming(true)} />
        <IconButton icon="down" label="Export" testid="export-one" onClick={() => chats.exported(conversation.id).then((text) => save("ossian-chat.json", text))} />
        <IconButton icon="bin" label="Delete" testid="delete" onClick={remove} />
      </span>
    </li>
  );
}

// Conversations in this browser: IndexedDB, or memory where a browser has none to give. Nothing
// is ever deleted but what the user deletes.

import { Cell } from "./cell";
import type { Conversation, Message, Sampling } from "./tree";

const NAME = "ossian";
const VERSION = 1;

// trouble is why conversations are not kept, in words for the reader; "" = they are.
export const trouble = new Cell("");

interface Store {
  conversations(): Promise<Conversation[]>;
  messages(conversation?: string): Promise<Message[]>;
  put(conversations: Conversation[], messages: Message[]): Promise<void>;
  remove(conversation: string): Promise<void>;
  defaults(): Promise<Sampling>;
  setDefaults(settings: Sampling): Promise<void>;
}

// Memory is the store of a page that cannot keep anything.
class Memory implements Store {
  private all = new Map<string, Conversation>();
  private said = new Map<string, Message>();
  private settings: Sampling = {};

  async conversations(): Promise<Conversation[]> {
    return [...this.all.values()];
  }
  async messages(conversation?: string): Promise<Message[]> {
    return [...this.said.values()].filter((m) => conversation === undefined || m.conversation === conversation);
  }
  async put(conversations: Conversation[], messages: Message[]): Promise<void> {
    for (const c of conversations) this.all.set(c.id, c);
    for (const m of messages) this.said.set(m.id, m);
  }
  async remove(conversation: string): Promise<void> {
    this.all.delete(conversation);
    for (const m of await this.messages(conversation)) this.said.delete(m.id);
  }
  async defaults(): Promise<Sampling> {
    return this.settings;
  }
  async setDefaults(settings: Sampling): Promise<void> {
    this.settings = settings;
  }
}

function promised<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser's database failed"));
  });
}

function ended(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = transaction.onerror = () => reject(transaction.error ?? new Error("the browser's database failed"));
  });
}

// Disk is the store in IndexedDB. All methods are async: what a closed database throws at once is a
// rejection as any other.
class Disk implements Store {
  constructor(private db: IDBDatabase) {
    db.onversionchange = () => db.close(); // another tab has a newer page
  }
  async conversations(): Promise<Conversation[]> {
    return promised(this.db.transaction("conversations").objectStore("conversations").getAll());
  }
  async messages(conversation?: string): Promise<Message[]> {
    const store = this.db.transaction("messages").objectStore("messages");
    return promised(conversation === undefined ? store.getAll() : store.index("conversation").getAll(conversation));
  }
  async put(conversations: Conversation[], messages: Message[]): Promise<void> {
    const transaction = this.db.transaction(["conversations", "messages"], "readwrite");
    for (const c of conversations) transaction.objectStore("conversations").put(c);
    for (const m of messages) transaction.objectStore("messages").put(m);
    transaction.commit?.(); // at once, not when the requests have answered: the page may be left before that
    return ended(transaction);
  }
  async remove(conversation: string): Promise<void> {
    const transaction = this.db.transaction(["conversations", "messages"], "readwrite");
    transaction.objectStore("conversations").delete(conversation);
    const messages = transaction.objectStore("messages");
    const keys = await promised(messages.index("conversation").getAllKeys(conversation));
    for (const key of keys) messages.delete(key);
    return ended(transaction);
  }
  async defaults(): Promise<Sampling> {
    return (await promised(this.db.transaction("settings").objectStore("settings").get("defaults"))) ?? {};
  }
  async setDefaults(settings: Sampling): Promise<void> {
    const transaction = this.db.transaction("settings", "readwrite");
    transaction.objectStore("settings").put(settings, "defaults");
    return ended(transaction);
  }
}

function openDisk(): Promise<Disk> {
  if (typeof indexedDB === "undefined") return Promise.reject(new Error("it has no database"));
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, VERSION);
    request.onupgradeneeded = () => {
      const db = request.result;
      db.createObjectStore("conversations", { keyPath: "id" });
      db.createObjectStore("messages", { keyPath: "id" }).createIndex("conversation", "conversation");
      db.createObjectStore("settings");
    };
    request.onblocked = () => reject(new Error("another tab holds it open"));
    request.onerror = () => reject(request.error ?? new Error("it cannot be opened"));
    request.onsuccess = () => {
      const stores = request.result.objectStoreNames;
      if (stores.contains("conversations") && stores.contains("messages") && stores.contains("settings")) resolve(new Disk(request.result));
      else reject(new Error("it has not the tables that this page knows"));
    };
  });
}

// rescued is what can be read of a database that this page cannot use as its own.
export async function rescued(): Promise<{ conversations: Conversation[]; messages: Message[] }> {
  const db = await promised(indexedDB.open(NAME)); // of whatever version
  try {
    const all = async (name: string): Promise<any[]> => (db.objectStoreNames.contains(name) ? promised(db.transaction(name).objectStore(name).getAll()) : []);
    return { conversations: await all("conversations"), messages: await all("messages") };
  } finally {
    db.close();
  }
}

const memory = new Memory();
let opened: Promise<Store> | undefined;

// unusable is whether there is a database that only rescued can read.
export let unusable = false;

// The databases of some browsers never answer, as while another tab's is being upgraded.
const PATIENCE = 5000; // ms

// store is the one that is in use.
export function store(): Promise<Store> {
  opened ??= (async () => {
    try {
      const late = new Promise<never>((_, reject) => setTimeout(() => reject(new Error("the browser's database does not answer")), PATIENCE));
      return await Promise.race([openDisk(), late]);
    } catch (error) {
      const newer = (error as DOMException)?.name === "VersionError";
      unusable = newer || (error as DOMException)?.name === "UnknownError";
      trouble.set(newer ? "The conversations in this browser were written by a newer version of this page." : `This browser keeps no conversations here: ${reasonOf(error)}.`);
      return memory;
    }
  })();
  return opened;
}

function reasonOf(error: unknown): string {
  return ((error as Error)?.message || "its database cannot be opened").replace(/\.$/, "");
}

// write keeps conversations and messages, and says so where that fails: then it gives false, and
// the page goes on with what it has in memory.
export async function write(conversations: Conversation[], messages: Message[]): Promise<boolean> {
  try {
    await (await store()).put(conversations, messages);
    return true;
  } catch (error) {
    const full = (error as DOMException)?.name === "QuotaExceededError";
    trouble.set(full ? "This browser has no more room for conversations: what is new is lost with this tab." : `The last change could not be kept: ${reasonOf(error)}.`);
    return false;
  }
}

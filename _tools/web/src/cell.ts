// A Cell is a value that views follow. It replaces a library of signals: the page has few
// values that more than one view shows.

import { useEffect, useState } from "preact/hooks";

export class Cell<T> {
  private followers = new Set<() => void>();

  constructor(private value: T) {}

  get(): T {
    return this.value;
  }

  set(value: T): void {
    if (Object.is(this.value, value)) return;
    this.value = value;
    this.tell();
  }

  // tell is for values that were changed in place.
  tell(): void {
    for (const follower of [...this.followers]) follower();
  }

  follow(follower: () => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}

// useCell returns a cell's value and has the component drawn again when it changes.
export function useCell<T>(cell: Cell<T>): T {
  const [, again] = useState(0);
  useEffect(() => {
    again((n) => n + 1); // what changed between drawing and following
    return cell.follow(() => again((n) => n + 1));
  }, [cell]);
  return cell.get();
}

// The model view: what the server says of itself and of what it serves.

import { useEffect, useState } from "preact/hooks";
import { info, keyState, request } from "./api";
import { useCell } from "./cell";
import { CopyButton } from "./controls";
import { shown } from "./format";
import { type Section, sections, written } from "./model-facts";

export function ModelView() {
  const [all, setAll] = useState<Section[] | undefined>();
  const [failed, setFailed] = useState("");
  const key = useCell(keyState);
  useEffect(() => {
    let gone = false;
    setFailed("");
    Promise.all([info(true), request("/v1/models").then((answer) => answer.json())]).then(
      ([told, listed]) => gone || setAll(sections(told, listed)),
      (error) => gone || setFailed(String(error.message)),
    );
    return () => {
      gone = true;
    };
  }, [key]);
  return (
    <div class="wide-text model" data-testid="model-view">
      <header class="view-head">
        <h1>Model</h1>
        {all ? <span class="copy-report">Copy as text <CopyButton text={() => written(all)} label="Copy as text" testid="model-copy" /></span> : null}
      </header>
      {failed ? <p class="note-warn" role="alert">The server does not say: {shown(failed)}</p> : null}
      {all?.map(({ title, rows }) => (
        <section key={title}>
          <h2>{title}</h2>
          <table class="facts">
            <caption class="sr">{title}</caption>
            <tbody>{rows.map(([name, value]) => <tr key={name}><th scope="row">{name}</th><td>{value}</td></tr>)}</tbody>
          </table>
        </section>
      ))}
    </div>
  );
}

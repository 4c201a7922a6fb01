// Pictures of buttons, drawn with lines of the text's colour.

const paths = {
  menu: "M3 6h14M3 10h14M3 14h14",
  plus: "M10 4v12M4 10h12",
  search: "M9 15A6 6 0 1 0 9 3a6 6 0 0 0 0 12zM13.5 13.5 17 17",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6.5 6.5h7v7h-7z",
  copy: "M7 7V4h9v9h-3M4 7h9v9H4z",
  check: "M4 10.5 8 15l8-9",
  pencil: "M4 16l1-4 8-8 3 3-8 8zM11.5 5.5l3 3",
  again: "M16 10a6 6 0 1 1-2-4.5M16 3v4h-4",
  left: "M12 5l-5 5 5 5",
  right: "M8 5l5 5-5 5",
  down: "M10 4v12M5 11l5 5 5-5",
  bookmark: "M6 3h8v14l-4-3.500L6 17z",
  pin: "M7 3h6M8 3v5l-2.500 3h9L12 8V3M10 11v6",
  bin: "M4 6h12M8 6V4h4v2M6 6l1 10h6l1-10",
  branch: "M6 4v12M6 12c0-4 8-2 8-7M4 16h4M12 5h4",
  clip: "M15.5 9.200l-5.6 5.600a3.6 3.6 0 0 1-5.1-5.100l6-6a2.4 2.4 0 0 1 3.4 3.400l-5.9 5.900a1.2 1.2 0 0 1-1.7-1.700l5.2-5.2",
  gear: "M3 6h7M14 6h3M3 14h3M10 14h7M12 4v4M8 12v4",
  pulse: "M2 10h4l2-6 4 12 2-6h4",
  cube: "M10 3l6 3.500v7L10 17l-6-3.500v-7zM4 6.500l6 3.5 6-3.500M10 10v7",
  moon: "M16 12.500A7 7 0 0 1 7.5 4 6.5 6.5 0 1 0 16 12.500z",
  sun: "M10 13.500a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM10 2v2M10 16v2M2 10h2M16 10h2M4.3 4.300l1.5 1.500M14.2 14.200l1.5 1.500M4.3 15.700l1.5-1.500M14.2 5.800l1.5-1.5",
  code: "M7 6l-4 4 4 4M13 6l4 4-4 4",
  close: "M5 5l10 10M15 5L5 15",
  help: "M7.5 7.500a2.5 2.5 0 1 1 3.5 2.300c-.7.4-1 .8-1 1.700M10 14.500v.1",
  key: "M7 13a3 3 0 1 1 2.5-4.600L17 8.500v3h-2v-1.500h-2v1.500h-3.300A3 3 0 0 1 7 13z",
  text: "M4 5h12M4 9h12M4 13h7",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}

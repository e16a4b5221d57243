// The page: opens snapshots, holds the state, and gives it to the view that is chosen. Must not know how a view draws.

import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Report } from '../../analysis/report/format.js';
import { devicesOf } from '../../analysis/report/gap.js';
import { deviceHistory } from '../device-history.js';
import { rowsPassing } from '../filter.js';
import { DARK, LIGHT } from '../palette.js';
import { Analyst } from './analyst.js';
import { DiagnosisView } from './diagnosis-view.js';
import { HoldersView } from './holders-view.js';
import { useKeys } from './keys.js';
import { type OpenFile, openFile, snapshotsOfPage } from './open-file.js';
import { SegmentsView } from './segments-view.js';
import { formatState, parseState, type Update, VIEWS, type ViewState } from './store.js';
import { TimelineView } from './timeline-view.js';
import { Toolbar } from './toolbar.js';
import type { ViewProps } from './view-props.js';

const PANELS = { timeline: TimelineView, segments: SegmentsView, holders: HoldersView, diagnosis: DiagnosisView };

export function App() {
  const [files, setFiles] = useState<readonly OpenFile[]>([]);
  const [message, setMessage] = useState<string | null>('Reading…');
  const [state, update] = useViewState();
  const open = useOpening(setFiles, setMessage, update);
  useDrop(open);
  const dark = useIsDark(state.theme);
  const file = files[state.file] ?? files[0];
  return (
    <div class={dark ? 'app dark' : 'app'}>
      {file === undefined ? null : (
        <Shown files={files} file={file} state={state} update={update} open={open} dark={dark} />
      )}
      {message === null ? null : (
        <div class="message" role="alert">
          {message}
          {file === undefined ? null : (
            <button type="button" onClick={() => setMessage(null)}>
              Close
            </button>
          )}
        </div>
      )}
      {file === undefined && message !== 'Reading…' ? <DropHere open={open} /> : null}
    </div>
  );
}

/** Files may be dropped anywhere. */
function useDrop(open: (files: readonly File[]) => Promise<void>): void {
  useEffect(() => {
    const over = (event: DragEvent) => event.preventDefault();
    const drop = (event: DragEvent) => {
      event.preventDefault();
      void open([...(event.dataTransfer?.files ?? [])]);
    };
    addEventListener('dragover', over);
    addEventListener('drop', drop);
    return () => {
      removeEventListener('dragover', over);
      removeEventListener('drop', drop);
    };
  }, [open]);
}

function DropHere({ open }: { readonly open: (files: readonly File[]) => Promise<void> }) {
  return (
    <main class="drop">
      <h1>cudalloc</h1>
      <p>
        Drop a memory snapshot here: a pickle of PyTorch, or ours. It is read on this machine; nothing is sent anywhere.
      </p>
      <label>
        or choose files{' '}
        <input type="file" multiple onChange={(event) => void open([...(event.currentTarget.files ?? [])])} />
      </label>
    </main>
  );
}

interface ShownProps {
  readonly files: readonly OpenFile[];
  readonly file: OpenFile;
  readonly state: ViewState;
  readonly update: Update;
  readonly open: (files: readonly File[]) => Promise<void>;
  readonly dark: boolean;
}

function Shown({ files, file, state, update, open, dark }: ShownProps) {
  const devices = useMemo(() => devicesOf(file.snapshot), [file]);
  const device = devices.includes(state.device) ? state.device : (devices[0] ?? 0);
  const history = useMemo(() => deviceHistory(file.snapshot, device), [file, device]);
  const passing = useMemo(() => rowsPassing(history, state), [history, state.search, state.stream, state.pool]);
  const analyst = useMemo(() => new Analyst(file), [file]);
  useEffect(() => () => analyst.close(), [analyst]);
  const report = useReport(analyst);
  const made = report instanceof Error ? null : report;
  const capacity = made?.devices.find((entry) => entry.device === device)?.capacity ?? null;
  const props: ViewProps = {
    history,
    state: { ...state, device },
    update,
    palette: dark ? DARK : LIGHT,
    files,
    passing,
    report,
    capacity,
    analyst,
  };
  const Panel = PANELS[state.view];
  useKeys(props);
  return (
    <>
      <Toolbar {...props} devices={devices} open={open} />
      <div class="tabs" role="tablist" aria-label="Views">
        {VIEWS.map((name, i) => (
          <button
            type="button"
            role="tab"
            key={name}
            id={`tab-${name}`}
            aria-selected={name === state.view}
            aria-controls="view"
            title={`Key ${i + 1}`}
            onClick={() => update({ view: name })}
          >
            {name}
          </button>
        ))}
      </div>
      <main data-view={state.view}>
        <div
          id="view"
          role="tabpanel"
          aria-labelledby={`tab-${state.view}`}
          data-report={report === null ? 'waiting' : report instanceof Error ? 'failed' : 'ready'}
        >
          <Panel {...props} />
        </div>
      </main>
    </>
  );
}

/** The state and the address, each following the other. */
function useViewState(): readonly [ViewState, Update] {
  const [state, setState] = useState(() => parseState(location.hash));
  const update = useCallback<Update>((patch) => setState((before) => ({ ...before, ...patch })), []);
  const written = useRef(location.hash);
  useEffect(() => {
    // Dragging changes the state at every frame; browsers limit how often an address may change.
    const timer = setTimeout(() => {
      const text = formatState(state);
      written.current = text === '' ? '' : `#${text}`;
      history.replaceState(null, '', written.current === '' ? location.pathname + location.search : written.current);
    }, 250);
    return () => clearTimeout(timer);
  }, [state]);
  useEffect(() => {
    const read = () => {
      if (location.hash !== written.current) setState(parseState(location.hash));
    };
    addEventListener('hashchange', read);
    return () => removeEventListener('hashchange', read);
  }, []);
  return [state, update];
}

function useOpening(
  setFiles: (change: (files: readonly OpenFile[]) => readonly OpenFile[]) => void,
  setMessage: (text: string | null) => void,
  update: Update,
): (files: readonly File[]) => Promise<void> {
  useEffect(() => {
    void (async () => {
      // The browser shows the message before the work begins.
      await new Promise((resolve) => setTimeout(resolve));
      try {
        for await (const { name, raw } of snapshotsOfPage()) {
          const file = await opened(name, raw);
          setFiles((files) => [...files, file]);
        }
        setMessage(null);
      } catch (error) {
        setMessage(textOf(error));
      }
    })();
  }, []);
  return useCallback(async (chosen) => {
    for (const file of chosen) {
      setMessage(`Reading ${file.name}…`);
      try {
        const next = await opened(file.name, new Uint8Array(await file.arrayBuffer()));
        setFiles((files) => {
          // Its own moments and filters: those of the file before mean nothing in it.
          update({
            file: files.length,
            from: null,
            to: null,
            top: null,
            bottom: null,
            cursor: null,
            other: null,
            pinned: null,
            stream: null,
            pool: null,
          });
          return [...files, next];
        });
        setMessage(null);
      } catch (error) {
        setMessage(textOf(error));
        return;
      }
    }
  }, []);
}

async function opened(name: string, raw: Uint8Array<ArrayBuffer>): Promise<OpenFile> {
  try {
    return await openFile(name, raw);
  } catch (error) {
    throw new Error(`${name} can't be shown: ${textOf(error)}`);
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Null while it is being made. */
function useReport(analyst: Analyst): Report | Error | null {
  const [report, setReport] = useState<{ readonly of: Analyst; readonly value: Report | Error } | null>(null);
  useEffect(() => {
    analyst.report().then(
      (value) => setReport({ of: analyst, value }),
      (error: unknown) => setReport({ of: analyst, value: error instanceof Error ? error : new Error(String(error)) }),
    );
  }, [analyst]);
  return report?.of === analyst ? report.value : null;
}

function useIsDark(theme: ViewState['theme']): boolean {
  const query = useMemo(() => matchMedia('(prefers-color-scheme: dark)'), []);
  const [system, setSystem] = useState(query.matches);
  useEffect(() => {
    const change = () => setSystem(query.matches);
    query.addEventListener('change', change);
    return () => query.removeEventListener('change', change);
  }, [query]);
  return theme === 'auto' ? system : theme === 'dark';
}

// What the server pushes and answers for the live page (docs/live.md). Times are
// microseconds of its monotonic clock; Hello turns them into wall time.

export type Counts = Record<string, number>; // by reason, variant, size of a batch

export interface Tally {
  offered: number; // that came: they ended, or wait
  on_time: number; late: number; failed: number; cancelled: number;
  rejected: Counts;
}
export interface PoolSecond extends Tally {
  busy: number; workers: number; idle: number; memory_mb: number;
  workers_wanted: number | null; accuracy: number | null;
  control_delay_ms?: number; // from a decision until its batch starts, as decisions allow for it
  renewals?: number; // workers that were replaced, since a run never ended
}
export interface ServiceSecond extends Tally {
  answered_by: Counts; accuracy: number | null; p50_ms: number | null; p99_ms: number | null;
  batches: Counts; waiting: number;
  drift?: number; // measured over profiled run time
  stage?: boolean; // no client calls it: it is a stage or member of others
}
export interface Second { at_us: number; length_us?: number; pool: PoolSecond; services: Record<string, ServiceSecond> }

export interface Worker { id: number; name: string; type: string; serving?: boolean }
export interface Service {
  name: string; kind: "model" | "variants" | "ensemble" | "pipeline" | "stream";
  slo_ms: number | null; members: string[]; accuracy: number | null;
  configured?: boolean; // false: a model of the repository that clients can call by its name
}
export interface Unserved { name: string; reason: string } // a model or service that should be
export interface Steps { step_s: number; seconds: Second[] }
export interface Hello {
  server: { name: string; version: string };
  epoch_ms: number; now_us: number; policy: string;
  recorder: { seconds: number; memory_mb: number } | null; // null: off, and nothing but the counts comes
  workers: Worker[]; services: Service[];
  unserved?: Unserved[];
  schedulers?: string[]; // that what-if knows
  more_workers?: MoreWorkers | null; // the last
  history: Steps & { coarse?: Steps };
  timeline?: TimelineEvent; // the last batches; absent where the recorder is off
}

export interface Seat { id: number | string; service: string; arrival_us: number; nominated_us?: number; deadline_us: number | null; items: number }
export interface Batch {
  id: number; worker: number; model: string; service: string; items: number;
  start_us: number; end_us: number | null; expected_end_us: number;
  rule: string; why: string; waited_for: string;
  requests: Seat[]; more?: number;
}
export interface Waiting { id: number | string; model: string; service: string; arrival_us: number; deadline_us: number | null }
export interface Load { worker: number; model: string; start_us: number; end_us: number | null }
export interface Death { worker: number; model: string; at_us: number; signal: string | number }
export interface TimelineEvent { now_us: number; batches: Batch[]; waiting: Waiting[]; loads: Load[]; deaths?: Death[]; more?: number }
export interface LogEvent { at_us: number; level: string; text: string }

export interface Span { name: string; label: string; service?: string; worker?: number | null; batch?: number | null; start_us: number; end_us: number | null }
export interface RequestRecord {
  id: number | string; client_id: string | null; service: string; kind: string;
  arrival_us: number; deadline_us: number | null; end_us: number | null; outcome: string; sentence: string;
  answered_by: string | null; accuracy: number | null; budget_ms: number | null; spans: Span[];
}

export interface Decision { kind: string; service: string | null; at_us: number | null; took_ms: number | null; summary: string; document: string; replay: string }

export interface Tuning {
  rules: string; since_us: number; fixed: string | null; moves: number; trials: number;
  tried: { rules: string; loss: number | null }[];
}

export interface Case { seconds?: number; scheduler?: string | null; workers?: number | null; load?: number; slo_ms?: Record<string, number> }
export interface Outcome {
  requests: number; seconds: number; on_time: number; accuracy: number | null; busy: number;
  services: Record<string, { on_time: number; accuracy: number | null; p99_ms: number | null }>;
}
export interface Recorded extends Outcome {
  not_replayed?: { service: string; requests: number; why: string }[];
  notes?: string[];
}
// The fewest workers for a share on time; null: not even as many as were tried, which had the best share.
export interface Needed { on_time: number; workers: number | null; tried: number; best: number; exact: boolean }
// One worker more, and two, asked by the server itself while a service loses requests.
export interface MoreWorkers extends WhatIf { at_us: number }
export interface WhatIf { recorded: Recorded; replayed: Outcome; cases: (Outcome & { case: Case })[]; needed?: Needed; error: number; took_ms: number }

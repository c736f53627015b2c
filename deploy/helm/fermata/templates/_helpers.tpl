{{- define "fermata.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "fermata.labels" -}}
app.kubernetes.io/name: fermata
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* (dict "root" $ "part" "server") */ -}}
{{- define "fermata.selector" -}}
app.kubernetes.io/name: fermata
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "fermata.isCluster" -}}
{{- if or .Values.workers (eq .Values.shape "parts") }}yes{{ end -}}
{{- end -}}

{{- define "fermata.tlsSecret" -}}
{{- .Values.cluster.tlsSecret | default (printf "%s-cluster" (include "fermata.name" .)) -}}
{{- end -}}

{{- /* What listens for workers. */ -}}
{{- define "fermata.schedulers" -}}
{{- $name := include "fermata.name" . -}}
{{- if eq .Values.shape "parts" -}}
{{- $all := list -}}
{{- range $i := until (int .Values.scheduler.replicas) -}}
{{- $all = append $all (printf "%s-scheduler-%d.%s-scheduler:7400" $name $i $name) -}}
{{- end -}}
{{- join "," $all -}}
{{- else -}}
{{- printf "%s-cluster:7400" $name -}}
{{- end -}}
{{- end -}}

{{- /* Of several schedulers the one that holds a Lease decides, unless there is a file for that. */ -}}
{{- define "fermata.hasLease" -}}
{{- if and (eq .Values.shape "parts") (gt (int .Values.scheduler.replicas) 1) (not (default (dict) .Values.config.cluster).lock) }}yes{{ end -}}
{{- end -}}

{{- define "fermata.leaseName" -}}
{{- $cluster := default (dict) .Values.config.cluster -}}
{{- default (printf "%s-scheduler" (include "fermata.name" .)) (default (dict) $cluster.lease).name -}}
{{- end -}}

{{- define "fermata.schedulerAccount" -}}
{{- .Values.serviceAccount | default (printf "%s-scheduler" (include "fermata.name" .)) -}}
{{- end -}}

{{- /* What the values cannot say about each other in a schema. */ -}}
{{- define "fermata.check" -}}
{{- if include "fermata.isCluster" . -}}
{{- if not (or .Values.cluster.tlsSecret .Values.cluster.certManagerIssuer) -}}
{{- fail "cluster: workers in pods of their own send inputs over the network, expected cluster.tlsSecret or cluster.certManagerIssuer" -}}
{{- end -}}
{{- if and (eq .Values.shape "serve") (or (gt (int .Values.server.replicas) 1) (ne .Values.server.autoscale.by "none")) -}}
{{- fail "server: workers join one scheduler, expected server.replicas: 1 and server.autoscale.by: none beside workers, or shape: parts" -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.shape "parts") (not .Values.workers) -}}
{{- fail "workers: with shape: parts nobody else runs models, expected a type of workers at least" -}}
{{- end -}}
{{- if and (eq .Values.shape "parts") .Values.server.localWorkers -}}
{{- fail "server.localWorkers: with shape: parts these pods only speak with clients, expected none" -}}
{{- end -}}
{{- $names := list -}}
{{- range .Values.workers -}}
{{- if has .name $names -}}{{- fail (printf "workers: two types are called %q, expected different names" .name) -}}{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- if and (eq .Values.models.from "store") (not .Values.models.store) -}}
{{- fail "models.store: empty, expected s3://BUCKET/PREFIX, since models.from is store" -}}
{{- end -}}
{{- if and (eq .Values.models.from "image") (not .Values.models.image) -}}
{{- fail "models.image: empty, expected an image, since models.from is image" -}}
{{- end -}}
{{- if and (eq .Values.models.from "none") (not .Values.config.models) -}}
{{- fail "config.models: missing, expected where the models are, since models.from is none" -}}
{{- end -}}
{{- end -}}

{{- define "fermata.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ int64 .Values.user }}
runAsGroup: {{ int64 .Values.user }}
fsGroup: {{ int64 .Values.user }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "fermata.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "fermata.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* (dict "root" $ "models" true) */ -}}
{{- define "fermata.mounts" -}}
- {name: config, mountPath: /etc/fermata, readOnly: true}
- {name: scratch, mountPath: /tmp}
{{- if include "fermata.isCluster" .root }}
- {name: cluster-tls, mountPath: /etc/fermata-tls, readOnly: true}
{{- end }}
{{- if has .root.Values.models.from (list "claim" "image") }}
- {name: models, mountPath: /mnt/models, readOnly: true}
{{- end }}
{{- end -}}

{{- define "fermata.volumes" -}}
- name: config
  configMap: {name: {{ include "fermata.name" . }}}
- name: scratch
  emptyDir: {}
{{- if include "fermata.isCluster" . }}
- name: cluster-tls
  secret: {secretName: {{ include "fermata.tlsSecret" . }}, defaultMode: 0440}
{{- end }}
{{- if eq .Values.models.from "claim" }}
- name: models
  persistentVolumeClaim: {claimName: {{ .Values.models.claim }}, readOnly: true}
{{- else if eq .Values.models.from "image" }}
- name: models
  image: {reference: {{ .Values.models.image | quote }}, pullPolicy: {{ .Values.image.pullPolicy }}}
{{- end }}
{{- end -}}

{{- define "fermata.env" -}}
- {name: HOME, value: /tmp}
{{- end -}}

{{- define "fermata.envFrom" -}}
{{- if .Values.models.storeSecret }}
envFrom:
  - secretRef: {name: {{ .Values.models.storeSecret }}}
{{- end }}
{{- end -}}

{{- /* (dict "root" $ "of" .Values.server "part" "server"): what every pod has. */ -}}
{{- define "fermata.pod" -}}
{{- $asks := and (eq .part "scheduler") (include "fermata.hasLease" .root) }}
{{- with ternary (include "fermata.schedulerAccount" .root) .root.Values.serviceAccount (not (empty $asks)) }}
serviceAccountName: {{ . }}
{{- end }}
automountServiceAccountToken: {{ not (empty $asks) }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext: {{ include "fermata.podSecurity" .root | nindent 2 }}
{{- with .of.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .of.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "fermata.selector" (dict "root" .root "part" .part) | nindent 8 }}
volumes: {{ include "fermata.volumes" .root | nindent 2 }}
{{- end -}}

{{- /* A container's ports and probes, of one that speaks the protocols. */ -}}
{{- define "fermata.served" -}}
ports:
  - {name: http, containerPort: 8000}
  - {name: grpc, containerPort: 8001}
  - {name: metrics, containerPort: 8002}
startupProbe:
  httpGet: {path: /v2/health/live, port: http}
  periodSeconds: 5
  failureThreshold: {{ div (add .Values.models.loadSeconds 4) 5 }}
{{- /* Requests wait while another scheduler begins: no frontend must be left out for that. */}}
readinessProbe:
  httpGet: {path: /v2/health/ready, port: http}
  periodSeconds: 2
  failureThreshold: {{ eq .Values.shape "parts" | ternary 3 1 }}
livenessProbe:
  httpGet: {path: /v2/health/live, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}

{{- /* The scheduler's own service: it knows how many workers are wanted. */ -}}
{{- define "fermata.scalerService" -}}
{{- include "fermata.name" . }}{{ if eq .Values.shape "parts" }}-scheduler{{ end -}}
{{- end -}}

{{- define "fermata.scalers" -}}
{{- $service := include "fermata.scalerService" . -}}
{{- if eq .Values.shape "parts" -}}
{{- $all := list -}}
{{- range $i := until (int .Values.scheduler.replicas) -}}
{{- $all = append $all (printf "%s-%d.%s.%s.svc:8001" $service $i $service $.Release.Namespace) -}}
{{- end -}}
{{- join "," $all -}}
{{- else -}}
{{- printf "%s.%s.svc:8001" $service .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- /* The signal is steady already: it rises at once, to ten times at most, and falls after half a minute of calm. */ -}}
{{- define "fermata.behavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  policies: [{type: Percent, value: 900, periodSeconds: 15}, {type: Pods, value: 4, periodSeconds: 15}]
scaleDown: {stabilizationWindowSeconds: {{ hasKey . "calmSeconds" | ternary .calmSeconds 60 }}}
{{- end -}}

{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- /* The image's (deploy/container/image.py), and its group: nobody else's number, as it is the administrators'. */ -}}
{{- define "rdma-broker.user" -}}
2100004792
{{- end }}

{{- /* Whoever is neither root nor can become it: as the image says, and for those who do not look there. */ -}}
{{- define "rdma-broker.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ include "rdma-broker.user" . }}
runAsGroup: {{ include "rdma-broker.user" . }}
# The pod's volumes, the sockets among them, are this group's, and every container of the pod is in it.
fsGroup: {{ include "rdma-broker.user" . }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "rdma-broker.noPrivileges" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* What a container that uses the kernel's devices has among its resources: the broker, and its clients. */ -}}
{{- define "rdma-broker.devices" -}}
{{- with .Values.devices.resource -}}
limits:
  {{- dict . $.Values.devices.count | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{- define "rdma-broker.probe" -}}
exec:
  command: [rdma-brokerctl, health]
{{- end }}

{{- /* A pod's: those by which Prometheus finds it, where it goes by annotations, and names its job as the alerts have it;
and the values', which win. "place" is that part of the values. */ -}}
{{- define "rdma-broker.annotations" -}}
{{- $annotations := deepCopy .place.podAnnotations -}}
{{- if and .place.metrics .Values.metrics.annotations -}}
{{- $annotations = merge $annotations (dict
  "prometheus.io/scrape" "true"
  "prometheus.io/port" (toString .Values.metrics.port)
  "prometheus.io/job" "rdma-broker") -}}
{{- end -}}
{{- with $annotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* By which the Prometheus Operator finds them: given a "name", and the pods' "labels". */ -}}
{{- define "rdma-broker.podMonitor" -}}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ toYaml .name }}
spec:
  selector:
    matchLabels:
      {{- toYaml .labels | nindent 6 }}
  podMetricsEndpoints:
  - port: metrics
    relabelings:
    # As the alerts have it.
    - targetLabel: job
      replacement: rdma-broker
{{- end }}

{{- /* The broker's container, a node's or a sidecar: "place" is that part of the values. */ -}}
{{- define "rdma-broker.container" -}}
name: broker
image: {{ toYaml .Values.image }}
imagePullPolicy: {{ .Values.imagePullPolicy }}
# The image's own, but for how it logs.
command: [rdma-broker-keeper, --watchdog, "30", --log-format, {{ .Values.log.format }}, --, rdma-brokerd]
args: [--config, /etc/rdma-broker/rdma-brokerd.toml]
{{- if or .place.metrics .Values.tcp.secret }}
ports:
{{- if .place.metrics }}
- name: metrics
  containerPort: {{ .Values.metrics.port }}
{{- end }}
{{- if .Values.tcp.secret }}
- name: administration
  containerPort: {{ .Values.tcp.port }}
{{- end }}
{{- end }}
securityContext:
  {{- include "rdma-broker.noPrivileges" . | nindent 2 }}
# The health service is on the Unix socket, where Kubernetes' own gRPC probe does not come.
startupProbe:
  {{- include "rdma-broker.probe" . | nindent 2 }}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  {{- include "rdma-broker.probe" . | nindent 2 }}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
# The keeper starts a broker that dies or hangs anew, and nothing is lost. This is for a keeper that does not, and
# costs the connections of the kernel's devices; so it takes its time.
livenessProbe:
  {{- include "rdma-broker.probe" . | nindent 2 }}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 12
resources:
  {{- mergeOverwrite (deepCopy .Values.resources) (include "rdma-broker.devices" . | fromYaml) | toYaml | nindent 2 }}
volumeMounts:
- name: rdma-broker-sockets
  mountPath: /run/rdma-broker
- name: rdma-broker-state
  mountPath: /run/rdma-broker-state
- name: rdma-broker-configuration
  mountPath: /etc/rdma-broker
  readOnly: true
{{- if .Values.tcp.secret }}
- name: rdma-broker-certificate
  mountPath: /etc/rdma-broker-tls
  readOnly: true
{{- end }}
{{- end }}

{{- /* As a kubelet keeps it up to date; the group is the pod's. */ -}}
{{- define "rdma-broker.certificateVolume" -}}
{{- with .Values.tcp.secret -}}
- name: rdma-broker-certificate
  secret:
    secretName: {{ toYaml . }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "rdma-broker.pullSecrets" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

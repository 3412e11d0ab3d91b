{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- /* A value as TOML. JSON's text, numbers and truth values are TOML's, too. */ -}}
{{- define "rdma-broker.toml" -}}
{{- if kindIs "map" . -}}
{ {{- range $index, $key := keys . | sortAlpha -}}
{{- if $index }}, {{ end }}{{ toJson $key }} = {{ include "rdma-broker.toml" (get $ $key) }}
{{- end -}} }
{{- else if kindIs "slice" . -}}
[{{- range $index, $each := . -}}
{{- if $index }}, {{ end }}{{ include "rdma-broker.toml" $each }}
{{- end -}}]
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end }}

{{- /* A broker's configuration: the values', with what other values say, and the folders that are the pod's volumes.
Given "values", the "place" that the broker has among them, and the "name" of the ConfigMap. No pod is made anew for another: that would cost its connections. */ -}}
{{- define "rdma-broker.configuration" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ toYaml .name }}
  labels:
    app.kubernetes.io/name: rdma-broker
data:
  rdma-brokerd.toml: |
{{- $control := dict
  "socket_directory" "/run/rdma-broker"
  "socket_group" ""
  "state_directory" "/run/rdma-broker-state/records" -}}
{{- $own := dict "control" $control "log" (dict "format" .values.log.format) -}}
{{- if .place.metrics -}}
{{- $_ := set $own "metrics" (dict "address" (printf "%s:%v" .values.metrics.address .values.metrics.port)) -}}
{{- end -}}
{{- if .values.tcp.secret -}}
{{- $_ := set $own "tcp" (dict
  "address" (printf "%s:%v" .values.tcp.address .values.tcp.port)
  "certificate" "/etc/rdma-broker-tls/tls.crt"
  "private_key" "/etc/rdma-broker-tls/tls.key"
  "client_authorities" "/etc/rdma-broker-tls/ca.crt"
  "administrators" .values.tcp.administrators
  "inspectors" .values.tcp.inspectors) -}}
{{- with .values.tcp.revoked -}}
{{- $_ := set $own.tcp "revoked" (printf "/etc/rdma-broker-tls/%s" .) -}}
{{- end -}}
{{- end -}}
{{- range $table, $keys := mergeOverwrite (deepCopy .values.configuration) $own }}
    [{{ $table }}]
  {{- range $key, $value := $keys }}
    {{ $key }} = {{ include "rdma-broker.toml" $value }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "turnwright.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "turnwright.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "turnwright.labels" -}}
{{ include "turnwright.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "turnwright.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "turnwright.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "turnwright.configMapName" -}}
{{- default (printf "%s-config" (include "turnwright.fullname" .)) .Values.config.existingConfigMap -}}
{{- end -}}

{{- define "turnwright.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The plain Kafka properties as k=v,k=v, in the order of their names. */}}
{{- define "turnwright.kafkaProperties" -}}
{{- $pairs := list -}}
{{- range $key := keys .Values.kafka.properties | sortAlpha -}}
{{- $pairs = append $pairs (printf "%s=%v" $key (get $.Values.kafka.properties $key)) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

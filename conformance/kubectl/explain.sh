# explain: the schemas and their descriptions.

expect "explain a kind" 'KIND: +Pod\nVERSION: +v1\n(.*\n)*FIELDS:\n(.*\n)*  spec\t<PodSpec>' explain pods
expect "explain a field" 'GROUP: +apps\nKIND: +Deployment\nVERSION: +v1\n\nFIELD: replicas <integer>' explain deployment.spec.replicas
expect "explain a required field" 'FIELD: selector <LabelSelector>' explain deployment.spec.selector
expect "explain marks what is required" '  template\t<PodTemplateSpec> -required-' explain deployments.spec
expect "explain a list" 'FIELD: containers <\[\]Container>' explain pod.spec.containers
expect "explain the values of a field" 'FIELD: imagePullPolicy <string>\nENUM:\n    Always\n    IfNotPresent\n    Never' explain pod.spec.containers.imagePullPolicy
expect "explain all of it" '  spec\t<ServiceSpec>\n(.*\n)*    ports\t<\[\]ServicePort>\n(.*\n)*      targetPort\t<IntOrString>' explain service --recursive
expect "explain another version" 'VERSION: +v1' explain events --api-version=events.k8s.io/v1
expect "explain from the older documents" 'KIND: +Deployment\nVERSION: +apps/v1\n(.*\n)*   spec\t<Object>' explain deployment --output=plaintext-openapiv2
refuse "explain an unknown field" 'field "nothing" does not exist' explain pod.spec.nothing
refuse "explain an unknown kind" "the server doesn't have a resource type \"nonsense\"" explain nonsense

manifest boats.yaml <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: boats.example.org
spec:
  group: example.org
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: A thing that floats.
        properties:
          spec:
            type: object
            required: [harbour]
            properties:
              harbour: {type: string, description: Where it lies.}
              rig: {type: string, enum: [sloop, ketch]}
              berths: {type: array, items: {type: object, properties: {length: {type: integer}}}}
YAML
expect "create a CRD to explain" 'created' create -f "$work/boats.yaml"
expect "it is established" 'condition met' wait crd/boats.example.org --for=condition=Established --timeout=30s
# OpenAPI documents are published some time after the CRD.
for _ in $(seq 50); do k explain boats >/dev/null 2>&1 && break; sleep 0.1; done
expect "explain a custom kind" 'GROUP: +example.org\nKIND: +Boat\nVERSION: +v1\n\nDESCRIPTION:\n    A thing that floats.' explain boats
expect "explain a custom field" 'FIELD: harbour <string>\n\n\n?DESCRIPTION:\n    Where it lies.' explain boat.spec.harbour
expect "explain custom values" 'FIELD: rig <string>\nENUM:\n    sloop\n    ketch' explain boat.spec.rig
expect "explain a custom list" '  length\t<integer>' explain boat.spec.berths

# describe: objects with their related objects and events.

set=$(k get rs -l app=web -o 'jsonpath={.items[?(@.spec.replicas==3)].metadata.name}')
settles '(?s)(SuccessfulCreate.*){3}' events --for "rs/$set"
expect "describe a replica set" 'Controlled By: +Deployment/web\n(.*\n)*Pods Status: +3 Running / 0 Waiting / 0 Succeeded / 0 Failed' describe rs "$set"
expect "describe a namespace" 'Name: +kube-public\n(.*\n)*Status: +Active\n\nNo resource quota\.\n\nNo LimitRange resource' describe namespace kube-public
expect "describe a service account" 'Name: +default\nNamespace: +default\nLabels: +<none>\n(.*\n)*Image pull secrets: +<none>' describe serviceaccount default
expect "describe endpoints" 'Name: +web\n(.*\n)*Subsets:\n  Addresses: +10\.' describe endpoints web
expect "describe a slice" 'AddressType: +IPv4\n(.*\n)*Endpoints:\n  - Addresses: +10\.' describe endpointslices -l kubernetes.io/service-name=web
TRANSCRIPT= expect "describe the service of the server" 'Name: +kubernetes\n(.*\n)*Port: +https +443/TCP' describe service kubernetes
expect "describe by label" 'Name: +web\n' describe deployment -l app=web --show-events=false
TRANSCRIPT= expect "describe by the beginning of a name" 'Name: +settings\n' describe configmap sett
refuse "describe nothing" 'configmaps "none" not found' describe configmap none
expect "describe without events" 'Name: +web\n(.*\n)*NewReplicaSet: ' describe deployment web --show-events=false
expect "a claim" 'persistentvolumeclaim/store created' create -f - < <(printf 'apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: store}\nspec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}\n')
expect "its table" 'NAME +STATUS +VOLUME +CAPACITY +ACCESS MODES +STORAGECLASS +VOLUMEATTRIBUTESCLASS +AGE\nstore +Pending +none +<unset>' get pvc store
expect "describe a claim" 'Name: +store\n(.*\n)*StorageClass: +none\nStatus: +Pending\n' describe pvc store --show-events=false
expect "a volume" 'persistentvolume/disk created' create -f - < <(printf 'apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: disk}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, hostPath: {path: /disk}}\n')
expect "describe a volume" 'Name: +disk\n(.*\n)*Reclaim Policy: +Retain\nAccess Modes: +RWO\n' describe pv disk
expect "a network policy" 'networkpolicy.networking.k8s.io/wall created' create -f - < <(printf 'apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: wall}\nspec: {podSelector: {matchLabels: {a: b}}, ingress: [{ports: [{port: 80}], from: [{podSelector: {}}]}]}\n')
expect "describe a network policy" 'PodSelector: +a=b\n +Allowing ingress traffic:\n +To Port: 80/TCP\n +From:\n +PodSelector: <none>' describe networkpolicy wall
expect "an ingress" 'ingress.networking.k8s.io/way created' create ingress way --rule='example.org/a*=web:80,tls=cert' --default-backend=web:80
expect "describe an ingress" 'Default backend: +web:80 \(10\.(.*\n)*TLS:\n +cert terminates example.org\n(.*\n)* +example.org *\n +/a +web:80' describe ingress way
expect "limits" 'limitrange/small created' create -f - -n kube-public < <(printf 'apiVersion: v1\nkind: LimitRange\nmetadata: {name: small}\nspec: {limits: [{type: Container, max: {cpu: "2"}, default: {cpu: 500m}}]}\n')
expect "describe limits" 'Container +cpu +- +2 +500m +500m +-' describe limits small -n kube-public
expect "described with the namespace" 'Resource Limits\n(.*\n)* Container +cpu' describe namespace kube-public
expect "a storage class" 'storageclass.storage.k8s.io/quick created' create -f - < <(printf 'apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: quick}\nprovisioner: example.org/p\n')
expect "describe a storage class" 'Provisioner: +example.org/p\n(.*\n)*ReclaimPolicy: +Delete\nVolumeBindingMode: +Immediate' describe storageclass quick
expect "a runtime class" 'runtimeclass.node.k8s.io/strong created' create -f - < <(printf 'apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: strong}\nhandler: kata\n')
expect "describe what kubectl does not know" 'Handler: +kata\nKind: +RuntimeClass' describe runtimeclass strong
expect "describe a lease" 'Holder Identity: +node-0' describe lease node-0 -n kube-node-lease
expect "describe a priority class" 'Name: +system-node-critical\nValue: +2000001000' describe priorityclass system-node-critical
expect "describe a cluster role" 'PolicyRule:\n +Resources +Non-Resource URLs +Resource Names +Verbs\n(.*\n)* +\*\.\* +\[\] +\[\] +\[\*\]' describe clusterrole cluster-admin
expect "describe a cluster role binding" 'Kind: +ClusterRole\n +Name: +cluster-admin\nSubjects:\n(.*\n)* +Group +system:masters' describe clusterrolebinding cluster-admin
expect "clean up" 'deleted' delete pvc/store networkpolicy/wall ingress/way
expect "of the cluster" 'deleted' delete pv/disk storageclass/quick runtimeclass/strong
expect "the limits" 'deleted' delete limitrange small -n kube-public

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WebsiteSpec is the desired state of a website.
type WebsiteSpec struct {
	// Host is the host name of the route.
	// +kubebuilder:validation:MinLength=1
	Host string `json:"host"`

	// Replicas is the number of pods.
	// +kubebuilder:default=1
	Replicas *int32 `json:"replicas,omitempty"`
}

// WebsiteStatus is the observed state of a website.
type WebsiteStatus struct {
	// Replicas is the number of replicas of the Deployment.
	Replicas int32 `json:"replicas,omitempty"`

	// Key is the name of the Secret.
	Key string `json:"key,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status

// Website is a website with a Deployment, a Secret and a route.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WebsiteSpec   `json:"spec"`
	Status WebsiteStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// WebsiteList is a list of websites.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Website `json:"items"`
}

package dev.windlass.websites;

import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Version;

/** A website with a Deployment, a Secret and a route. */
@Group("example.dev")
@Version("v1")
public class Website extends CustomResource<WebsiteSpec, WebsiteStatus> implements Namespaced {}

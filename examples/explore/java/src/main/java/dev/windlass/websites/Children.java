package dev.windlass.websites;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.ObjectMeta;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.Secret;
import io.fabric8.kubernetes.api.model.SecretBuilder;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import java.util.Map;
import java.util.UUID;

/** The children of a website. */
final class Children {
  /** The namespace of all routes. */
  static final String ROUTES = "routes";

  private Children() {}

  static Deployment deployment(Website website) {
    var labels = Map.of("app.kubernetes.io/instance", website.getMetadata().getName());
    return new DeploymentBuilder()
        .withMetadata(owned(website, website.getMetadata().getName()))
        .withNewSpec()
        .withReplicas(website.getSpec().replicas)
        .withNewSelector()
        .withMatchLabels(labels)
        .endSelector()
        .withNewTemplate()
        .withNewMetadata()
        .withLabels(labels)
        .endMetadata()
        .withNewSpec()
        .addNewContainer()
        .withName("web")
        .withImage("nginx:1.29")
        .endContainer()
        .endSpec()
        .endTemplate()
        .endSpec()
        .build();
  }

  /**
   * Returns the Secret with a random key. Its name is unique for the website: a second attempt
   * cannot create a second Secret.
   */
  static Secret key(Website website) {
    var metadata = website.getMetadata();
    var name = metadata.getName() + "-key-" + metadata.getUid().substring(0, 8);
    return new SecretBuilder()
        .withMetadata(owned(website, name))
        .addToStringData("key", UUID.randomUUID().toString())
        .build();
  }

  /** Returns the route. It is in another namespace, where an owner reference has no effect. */
  static ConfigMap route(Website website) {
    var metadata = website.getMetadata();
    return new ConfigMapBuilder()
        .withNewMetadata()
        .withNamespace(ROUTES)
        .withName(metadata.getNamespace() + "." + metadata.getName())
        .endMetadata()
        .addToData("host", website.getSpec().host)
        .addToData("backend", metadata.getNamespace() + "/" + metadata.getName())
        .build();
  }

  private static ObjectMeta owned(Website website, String name) {
    var meta =
        new ObjectMetaBuilder()
            .withNamespace(website.getMetadata().getNamespace())
            .withName(name)
            .addNewOwnerReference()
            .withApiVersion(website.getApiVersion())
            .withKind(website.getKind())
            .withName(website.getMetadata().getName())
            .withUid(website.getMetadata().getUid())
            .withController(true)
            .endOwnerReference();
    return meta.build();
  }
}

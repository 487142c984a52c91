package dev.windlass.websites;

import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.javaoperatorsdk.operator.api.config.informer.InformerEventSourceConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.Cleaner;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.api.reconciler.ControllerConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.DeleteControl;
import io.javaoperatorsdk.operator.api.reconciler.EventSourceContext;
import io.javaoperatorsdk.operator.api.reconciler.Reconciler;
import io.javaoperatorsdk.operator.api.reconciler.UpdateControl;
import io.javaoperatorsdk.operator.processing.event.source.EventSource;
import io.javaoperatorsdk.operator.processing.event.source.informer.InformerEventSource;
import io.javaoperatorsdk.operator.processing.retry.GradualRetry;
import java.net.HttpURLConnection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Keeps a Deployment, a Secret and a route for each website. */
@ControllerConfiguration(finalizerName = "example.dev/route")
// The default pause of two seconds would be longer than the exploration waits for changes.
@GradualRetry(initialInterval = 200, maxInterval = 1000, maxAttempts = 1000)
public class WebsiteReconciler implements Reconciler<Website>, Cleaner<Website> {
  private static final String MANAGER = "website-operator";

  private final boolean hasBug;

  /** The UIDs of the websites whose route this process has created. */
  private final Set<String> created = ConcurrentHashMap.newKeySet();

  WebsiteReconciler(boolean hasBug) {
    this.hasBug = hasBug;
  }

  @Override
  public List<EventSource<?, Website>> prepareEventSources(EventSourceContext<Website> context) {
    var deployments =
        InformerEventSourceConfiguration.from(Deployment.class, Website.class).build();
    return List.of(new InformerEventSource<>(deployments, context));
  }

  @Override
  public UpdateControl<Website> reconcile(Website website, Context<Website> context) {
    KubernetesClient client = context.getClient();
    if (isOutdated(client, website)) {
      return UpdateControl.noUpdate();
    }
    apply(client, Children.deployment(website));
    String key = createKey(client, website);
    publish(client, website);

    // Only the fields of the update are applied.
    var update = new Website();
    update.setMetadata(
        new ObjectMetaBuilder()
            .withNamespace(website.getMetadata().getNamespace())
            .withName(website.getMetadata().getName())
            .build());
    update.setStatus(new WebsiteStatus());
    update.getStatus().replicas = website.getSpec().replicas;
    update.getStatus().key = key;
    return UpdateControl.patchStatus(update);
  }

  /** Deletes the route. The framework removes the finalizer afterwards. */
  @Override
  public DeleteControl cleanup(Website website, Context<Website> context) {
    if (isOutdated(context.getClient(), website)) {
      return DeleteControl.noFinalizerRemoval();
    }
    // The bug: another process may have created the route.
    if (!hasBug || created.remove(website.getMetadata().getUid())) {
      context.getClient().resource(Children.route(website)).delete();
    }
    return DeleteControl.defaultDelete();
  }

  /**
   * Reports whether the website has changed since the informer received it. It may even be a newer
   * one with the same name, which the route belongs to. The event of the change follows.
   */
  private static boolean isOutdated(KubernetesClient client, Website website) {
    Website current = client.resource(website).get();
    return current == null
        || !current.getMetadata().getUid().equals(website.getMetadata().getUid())
        || !current.getMetadata().getGeneration().equals(website.getMetadata().getGeneration());
  }

  /** Creates the Secret, unless it exists. Returns its name. */
  private String createKey(KubernetesClient client, Website website) {
    var key = client.resource(Children.key(website));
    if (key.get() == null) {
      try {
        key.create();
      } catch (KubernetesClientException error) {
        if (error.getCode() != HttpURLConnection.HTTP_CONFLICT) {
          throw error;
        }
      }
    }
    return key.item().getMetadata().getName();
  }

  /** Writes the route. */
  private void publish(KubernetesClient client, Website website) {
    var route = Children.route(website);
    if (hasBug && client.resource(route).get() == null) {
      created.add(website.getMetadata().getUid());
    }
    apply(client, route);
  }

  private static void apply(KubernetesClient client, HasMetadata object) {
    client.resource(object).fieldManager(MANAGER).forceConflicts().serverSideApply();
  }
}

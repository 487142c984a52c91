package dev.windlass.websites;

/** The desired state of a website. */
public class WebsiteSpec {
  /** The host name of the route. */
  public String host;

  /** The number of pods. */
  public int replicas = 1;
}

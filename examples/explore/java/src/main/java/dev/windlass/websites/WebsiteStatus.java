package dev.windlass.websites;

/** The observed state of a website. */
public class WebsiteStatus {
  /** The replicas of the Deployment. */
  public int replicas;

  /** The name of the Secret. */
  public String key;
}

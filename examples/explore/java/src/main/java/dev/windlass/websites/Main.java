package dev.windlass.websites;

import io.javaoperatorsdk.operator.Operator;
import java.time.Duration;

/**
 * The operator of websites.
 *
 * <p>The environment variable {@code BUG=memory} plants a bug: see the README of the examples.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) {
    Operator operator = new Operator();
    operator.register(new WebsiteReconciler("memory".equals(System.getenv("BUG"))));
    operator.installShutdownHook(Duration.ofSeconds(1));
    operator.start();
  }
}

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;

/** Java's own client: java Ask.java HOST:PORT prints what passed. */
public class Ask {
  static final String BODY =
      "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,2],\"datatype\":\"FP32\",\"data\":[1,2]}]}";

  static void passes(String name, Callable<Boolean> what) {
    try {
      System.out.println((what.call() ? "passed: " : "failed: ") + name);
    } catch (Exception error) {
      System.out.println("failed: " + name + ": " + error);
    }
  }

  public static void main(String[] arguments) {
    String server = "http://" + arguments[0];
    HttpClient client = HttpClient.newHttpClient();
    HttpRequest get = HttpRequest.newBuilder(URI.create(server + "/v2")).build();
    HttpRequest infer =
        HttpRequest.newBuilder(URI.create(server + "/v2/models/identity-fp32/infer"))
            .POST(HttpRequest.BodyPublishers.ofString(BODY)).build();
    HttpResponse.BodyHandler<String> text = HttpResponse.BodyHandlers.ofString();
    passes("GET that offers HTTP/2", () -> client.send(get, text).statusCode() == 200);
    passes("infer", () -> client.send(infer, text).body().contains("\"outputs\""));
    passes("twenty at a time", () -> {
      var all = Stream.generate(() -> client.sendAsync(infer, text)).limit(20).toList();
      return all.stream().map(CompletableFuture::join).allMatch(r -> r.statusCode() == 200);
    });
  }
}

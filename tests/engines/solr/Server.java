import java.util.Properties;
import org.apache.solr.client.solrj.embedded.JettyConfig;
import org.apache.solr.client.solrj.embedded.JettySolrRunner;

/**
 * Runs Solr with its HTTP server, on a free port that it prints, until its standard input ends. Argument: Solr's home.
 */
public class Server {
  public static void main(String[] given) throws Exception {
    JettyConfig config = JettyConfig.builder().setContext("/solr").setPort(0).build();
    JettySolrRunner runner = new JettySolrRunner(given[0], new Properties(), config);
    runner.start();
    System.out.println("listening: " + runner.getLocalPort());
    while (System.in.read() >= 0) {}
    Runtime.getRuntime().halt(0); // stopping in order takes half a minute, and there is nothing to keep
  }
}

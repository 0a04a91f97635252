import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.solr.client.solrj.SolrQuery;
import org.apache.solr.client.solrj.embedded.EmbeddedSolrServer;
import org.apache.solr.common.SolrDocument;
import org.apache.solr.common.SolrInputDocument;
import org.apache.solr.core.CoreContainer;

/**
 * Runs Solr inside this process. Arguments: Solr's home, and the names of cores that have features and a model called
 * perceptrank. The file documents.tsv of a core has the names of fields in its first line and a document in each other,
 * tabs in between; found.tsv becomes the number and the score of each, best first.
 */
public class Harness {
  public static void main(String[] given) throws Exception {
    CoreContainer container = CoreContainer.createAndLoad(Path.of(given[0]));
    for (int place = 1; place < given.length; place++) {
      rank(container, given[place], Path.of(given[0], given[place]));
    }
    System.exit(0); // Solr's threads would go on
  }

  private static void rank(CoreContainer container, String core, Path folder) throws Exception {
    EmbeddedSolrServer server = new EmbeddedSolrServer(container, core);
    List<String> lines = Files.readAllLines(folder.resolve("documents.tsv"));
    String[] names = lines.get(0).split("\t", -1);
    for (int number = 1; number < lines.size(); number++) {
      String[] values = lines.get(number).split("\t", -1);
      SolrInputDocument document = new SolrInputDocument();
      document.setField("id", Integer.toString(number - 1));
      for (int j = 0; j < names.length; j++) {
        document.setField(names[j], Float.parseFloat(values[j]));
      }
      server.add(document);
    }
    server.commit();
    SolrQuery query = new SolrQuery("*:*");
    query.setRows(lines.size());
    query.setFields("id", "score");
    query.set("rq", "{!ltr model=perceptrank reRankDocs=" + lines.size() + "}");
    StringBuilder found = new StringBuilder();
    for (SolrDocument document : server.query(query).getResults()) {
      found.append(document.getFieldValue("id")).append('\t').append(document.getFieldValue("score")).append('\n');
    }
    Files.writeString(folder.resolve("found.tsv"), found);
  }
}

import com.yahoo.schema.ApplicationBuilder;
import com.yahoo.schema.derived.DerivedConfiguration;
import com.yahoo.searchlib.rankingexpression.RankingExpression;
import com.yahoo.searchlib.rankingexpression.evaluation.DoubleValue;
import com.yahoo.searchlib.rankingexpression.evaluation.MapContext;
import com.yahoo.searchlib.rankingexpression.evaluation.Value;
import com.yahoo.vespa.config.search.RankProfilesConfig;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Scores documents by a rank profile. Argument: a folder with schema.sd and documents.tsv, which has rank features in
 * its first line and a document in each other, tabs in between; scores.txt becomes the score of each. The schema is read
 * and made into the configuration of a content node as on deployment; the ranking expressions of its last profile are
 * then evaluated, those of the second phase if there is one.
 */
public class Harness {
  public static void main(String[] given) throws Exception {
    Path folder = Path.of(given[0]);
    ApplicationBuilder built = ApplicationBuilder.createFromString(Files.readString(folder.resolve("schema.sd")));
    RankProfilesConfig.Builder derived = new RankProfilesConfig.Builder();
    derived.rankprofile(
        new DerivedConfiguration(built.getSchema(), built.getRankProfileRegistry())
            .getRankProfileList()
            .getRankProfilesConfig());
    List<RankProfilesConfig.Rankprofile> profiles = new RankProfilesConfig(derived).rankprofile();
    Map<String, String> properties = new HashMap<>();
    for (var property : profiles.get(profiles.size() - 1).fef().property()) {
      properties.put(property.name(), property.value());
    }
    for (var large : built.getSchema().rankExpressionFiles().expressions()) { // those that are sent as files
      String name = large.getName().substring(large.getName().lastIndexOf('.') + 1);
      String text = StandardCharsets.UTF_8.decode(large.getBlob()).toString();
      properties.put("rankingExpression(" + name + ").rankingScript", text);
    }
    String phase = properties.get("vespa.rank.secondphase");
    Features features = new Features(properties);
    List<String> lines = Files.readAllLines(folder.resolve("documents.tsv"));
    String[] names = lines.get(0).split("\t", -1);
    StringBuilder scores = new StringBuilder();
    for (String line : lines.subList(1, lines.size())) {
      String[] values = line.split("\t", -1);
      features.values.clear();
      for (int j = 0; j < names.length; j++) {
        features.values.put(names[j], Double.valueOf(values[j]));
      }
      Value score = features.get(phase == null ? properties.get("vespa.rank.firstphase") : phase);
      scores.append(score.asDouble()).append('\n');
    }
    Files.writeString(folder.resolve("scores.txt"), scores);
  }

  /** The rank features of a document, and what is computed of them. */
  private static class Features extends MapContext {
    final Map<String, Double> values = new HashMap<>();
    private final Map<String, RankingExpression> expressions = new HashMap<>();

    Features(Map<String, String> properties) throws Exception {
      for (var property : properties.entrySet()) {
        if (property.getKey().endsWith(".rankingScript")) {
          String name = property.getKey().substring(0, property.getKey().lastIndexOf('.'));
          expressions.put(name, new RankingExpression(property.getValue()));
        }
      }
    }

    @Override
    public Value get(String name) {
      if (expressions.containsKey(name)) {
        return expressions.get(name).evaluate(this);
      }
      if (!values.containsKey(name)) {
        throw new IllegalArgumentException("there is no rank feature " + name);
      }
      return new DoubleValue(values.get(name));
    }
  }
}

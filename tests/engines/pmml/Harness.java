import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jpmml.evaluator.Evaluator;
import org.jpmml.evaluator.LoadingModelEvaluatorBuilder;

/**
 * Scores documents by a PMML model. Argument: a folder with model.pmml and documents.tsv, which has the names of fields
 * in its first line and a document in each other, tabs in between, nothing where a value is missing; scores.txt becomes
 * the output field "score" of each.
 */
public class Harness {
  public static void main(String[] given) throws Exception {
    Path folder = Path.of(given[0]);
    Evaluator evaluator =
        new LoadingModelEvaluatorBuilder().load(new File(given[0], "model.pmml")).build();
    evaluator.verify();
    List<String> lines = Files.readAllLines(folder.resolve("documents.tsv"));
    String[] names = lines.get(0).split("\t", -1);
    StringBuilder scores = new StringBuilder();
    for (String line : lines.subList(1, lines.size())) {
      String[] values = line.split("\t", -1);
      Map<String, Object> document = new HashMap<>();
      for (int j = 0; j < names.length; j++) {
        document.put(names[j], values[j].isEmpty() ? null : Double.valueOf(values[j]));
      }
      scores.append(evaluator.evaluate(document).get("score")).append('\n');
    }
    Files.writeString(folder.resolve("scores.txt"), scores);
  }
}

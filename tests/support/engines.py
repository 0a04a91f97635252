"""Starting engines whose artefacts come from Maven's local repository; PERCEPTRANK_FETCH=1 lets Maven download them."""

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

ENGINES = Path(__file__).parents[1] / "engines"
JAVA = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1"]
SOLR_CONFIG = """\
<config>
  <luceneMatchVersion>8.11.4</luceneMatchVersion>
  <directoryFactory name="DirectoryFactory" class="solr.RAMDirectoryFactory"/>
  <indexConfig><lockType>single</lockType></indexConfig>
  <schemaFactory class="ClassicIndexSchemaFactory"/>
  <updateHandler class="solr.DirectUpdateHandler2"/>
  <requestHandler name="/select" class="solr.SearchHandler"/>
  <queryParser name="ltr" class="org.apache.solr.ltr.search.LTRQParserPlugin"/>
</config>
"""
# Dynamic fields as in Solr's default schema.
SOLR_SCHEMA = """\
<schema name="documents" version="1.6">
  <fieldType name="string" class="solr.StrField"/>
  <fieldType name="pfloat" class="solr.FloatPointField" docValues="true"/>
  <field name="key" type="string" stored="true"/>
  <dynamicField name="*_f" type="pfloat" indexed="true" stored="true"/>
  <dynamicField name="*_s" type="string" indexed="true" stored="true"/>
  <uniqueKey>key</uniqueKey>
</schema>
"""


def classpath(engine):
    """The class path of an engine's artefacts; skip if Maven does not have them."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("there is no mvn or no java")
    made = _ask_maven(engine)
    if made is None:
        pytest.skip(f"{engine} is not in Maven's local repository: set PERCEPTRANK_FETCH=1 to download it")
    return made


@functools.cache
def _ask_maven(engine):
    fetch = [] if os.environ.get("PERCEPTRANK_FETCH") else ["--offline"]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "classpath")
        command = ["mvn", "-q", "-B", *fetch, "-f", str(ENGINES / engine / "pom.xml")]
        command += [f"-Dmdep.outputFile={made}", "dependency:build-classpath"]
        done = subprocess.run(command, capture_output=True, check=False)
        return None if done.returncode or not made.exists() else made.read_text().strip()


def write_solr_core(folder, config=SOLR_CONFIG, schema=SOLR_SCHEMA):
    """Make the folder of a core."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (folder / "core.properties").write_text(f"name={folder.name}\n")
    (conf / "solrconfig.xml").write_text(config)
    (conf / "schema.xml").write_text(schema)


@contextlib.contextmanager
def solr_server(home):
    """Run Solr with its HTTP server; give its address."""
    (home / "solr.xml").write_text("<solr/>")
    command = [*JAVA, "-cp", classpath("solr"), str(ENGINES / "solr" / "Server.java"), str(home)]
    with open(home / "log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        said = next((line for line in process.stdout if line.startswith("listening: ")), None)
        assert said is not None, (home / "log").read_text()[-3000:]
        yield f"http://127.0.0.1:{int(said.split()[1])}/solr"
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextlib.contextmanager
def opensearch_server():
    """Run OpenSearch, which has no learning-to-rank plugin, as a user who is not root; give its address."""
    archive = classpath("opensearch")
    folder = Path(tempfile.mkdtemp(prefix="pr-os-", dir="/tmp"))  # whose path another user can follow
    process = None
    try:
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
        (home,) = folder.iterdir()
        who = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        if who:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, 65534, 65534)
        options = [
            "-Xms512m",
            "-XX:+UseSerialGC",
            "-Djava.security.manager=allow",
            "-Djava.locale.providers=SPI,COMPAT",
        ]
        options += [f"-Dopensearch.path.home={home}", f"-Dopensearch.path.conf={home / 'config'}"]
        options += ["-Dlog4j2.disable.jmx=true", "--add-opens", "java.base/java.io=ALL-UNNAMED"]
        settings = {
            "discovery.type": "single-node",
            "http.port": "0",
            "transport.port": "0",
            "network.host": "127.0.0.1",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }
        command = [*JAVA, *options, "-cp", str(home / "lib" / "*"), "org.opensearch.bootstrap.OpenSearch"]
        command += [f"-E{name}={value}" for name, value in settings.items()]
        log = folder / "log"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                command, cwd=home, stdout=file, stderr=file, env={"PATH": os.environ["PATH"]}, **who
            )
        yield _opensearch_address(process, log)
    finally:
        if process is not None:
            process.kill()  # it has nothing to keep
            process.wait()
        shutil.rmtree(folder)


def _opensearch_address(process, log):
    """Wait until the server says where it listens, and answers."""
    for _ in range(600):
        text = log.read_text(errors="replace")
        said = [
            line for line in text.splitlines() if "AbstractHttpServerTransport" in line and "publish_address" in line
        ]
        if said:
            address = "http://" + said[0].partition("publish_address {")[2].partition("}")[0]
            with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=10):
                return address
        if process.poll() is not None:
            pytest.skip(f"OpenSearch does not start: {text[-500:]}")
        time.sleep(0.1)
    pytest.skip("OpenSearch has not started within a minute")

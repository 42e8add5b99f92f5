//! Lists of flows and topologies of other simulators: `punctual convert`, `format` and `columns`.

use crate::common::{Place, text};

/// A scenario that reads a list of flows with these keys.
fn listed(keys: &str) -> String {
    format!(
        "name = \"listed\"\ntransports = [\"ndp\"]\n[network]\ntopology = \"star\"\nhosts = 8\n\
         rate = \"10Gbps\"\ndelay = \"1us\"\n[[traffic]]\npattern = \"list\"\n{keys}\n\
         [run]\nduration = \"20ms\"\n"
    )
}

const CSV: &str = "src,dst,size,start\n0,5,20KB,0ps\n7,1,1KB,1.5us\n";

/// The flows of a scenario in CSV.
fn flows(place: &Place, scenario: &str) -> String {
    std::fs::write(place.path().join("s.toml"), scenario).unwrap();
    let output = place.punctual(&["convert", "s.toml", "--to", "csv"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn lists__every_format_gives_the_same_flows() {
    let place = Place::new("");
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    write("flows.csv", CSV);
    let expected = flows(&place, &listed("file = \"flows.csv\""));
    assert_eq!(expected, CSV);
    let formats = [
        ("flows.cm", "htsim", "file = \"flows.cm\""),
        ("flows.txt", "hpcc", "file = \"flows.txt\"\nformat = \"hpcc\""),
        ("flows.tsv", "columns", "file = \"flows.tsv\"\ncolumns = \"src dst size start\""),
    ];
    for (file, format, keys) in formats {
        let output = place.punctual(&["convert", "flows.csv", "--to", format, "--out", file]);
        assert!(text(&output.stdout).starts_with("2 flows: "), "{}", text(&output.stderr));
        assert_eq!(flows(&place, &listed(keys)), expected, "{format}");
    }
    write("named.csv", "web,db,20000,0\ndb,web,1000,1.5\n");
    let columns = ["--columns", "src dst size start:us", "--number-hosts", "--to", "csv"];
    let output = place.punctual(&[&["convert", "named.csv"], &columns[..]].concat());
    assert_eq!(text(&output.stdout), "src,dst,size,start\n0,1,20KB,0ps\n1,0,1KB,1.5us\n");
    assert_eq!(text(&output.stderr), "host 0: web\nhost 1: db\n");
}

#[test]
fn topologies__of_the_hpcc_simulator_are_read() {
    let place = Place::new("");
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    // The switch is node 0, so that host 0 is node 1.
    write("t.txt", "3 1 2\n0\n1 0 10Gbps 0.001ms 0\n2 0 10Gbps 0.001ms 0\n");
    write("flows.txt", "1\n2 1 3 100 20000 0.001\n");
    let scenario = listed("file = \"flows.txt\"\nformat = \"hpcc\"").replace(
        "topology = \"star\"\nhosts = 8\nrate = \"10Gbps\"\ndelay = \"1us\"",
        "topology = \"file\"\npath = \"t.txt\"\nformat = \"hpcc\"",
    );
    assert_eq!(flows(&place, &scenario), "src,dst,size,start\n1,0,20KB,1ms\n");
    // Converted to a topology file, it is the same network.
    let convert = ["convert", "t.txt", "--from", "hpcc-topology", "--out", "t.toml"];
    assert!(place.punctual(&convert).status.success());
    let converted = scenario.replace("\"t.txt\"\nformat = \"hpcc\"", "\"t.toml\"");
    assert_eq!(flows(&place, &converted), "src,dst,size,start\n1,0,20KB,1ms\n");
    // A sweep takes all of them along.
    let plan = ["sweep", "plan", "s.toml", "--out", "sweep"];
    assert!(place.punctual(&plan).status.success());
    assert!(place.path().join("sweep/inputs/t.toml").exists());
}

#[test]
fn mistakes__are_named_with_file_and_line() {
    let place = Place::new(&listed("file = \"bad.cm\""));
    std::fs::write(place.path().join("bad.cm"), "Nodes 8\nConnections 1\n0->9 start 0\n").unwrap();
    let output = place.punctual(&["check", "s.toml"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("bad.cm: line 3: there is no node 9"), "{message}");
    assert!(message.contains("s.toml:10"), "{message}");
    let output = place.punctual(&["convert", "bad.cm", "--to", "csv"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("bad.cm: line 3: there is no node 9"));
    for (keys, expected) in [
        ("file = \"x\"\nformat = \"ns2\"", "ns2"),
        ("file = \"x\"\ncolumns = \"src dst\"", "column `size` is missing"),
        ("file = \"x\"\nformat = \"columns\"", "needs `columns`"),
        ("file = \"x\"\nformat = \"hpcc\"\ncolumns = \"src dst size\"", "are both given"),
    ] {
        std::fs::write(place.path().join("s.toml"), listed(keys)).unwrap();
        let message = text(&place.punctual(&["check", "s.toml"]).stderr);
        assert!(message.contains(expected), "{message}");
    }
    std::fs::write(place.path().join("keep.csv"), "mine").unwrap();
    std::fs::write(place.path().join("flows.csv"), CSV).unwrap();
    let output = place.punctual(&["convert", "flows.csv", "--to", "hpcc", "--out", "keep.csv"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(place.path().join("keep.csv")).unwrap(), "mine");
}

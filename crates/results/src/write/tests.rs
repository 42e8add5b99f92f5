#![allow(non_snake_case)] // Tests are named function__case.
use super::*;
use crate::flows::tests::{micros, record};
use crate::{ReadError, RunFacts, RunFiles, is_complete, leftovers, read, stats};
use punctual_core::{Bytes, Duration, PortId};
use punctual_record::{ByCause, FlowRecord, FlowStatus, Outcome, PortFrame, Totals};
use std::sync::Mutex;
use tempfile::TempDir;

/// A run with every kind of flow.
fn run_files(flows: u32) -> RunFiles {
    let kind = |id: u32| {
        let mut flow = record(id);
        match id % 4 {
            1 => (flow.status, flow.spec.deadline) = (FlowStatus::Abandoned, None),
            2 => (flow.status, flow.ended) = (FlowStatus::Unfinished, None),
            3 => {
                (flow.status, flow.ended) = (FlowStatus::Unfinished, None);
                (flow.spec.background, flow.spec.size) = (true, Bytes::ENDLESS);
            }
            _ => flow.ended = Some(micros(10 + u64::from(id % 97))),
        }
        let retransmits_by =
            ByCause { nack: id, bounce: id + 1, timeout: id + 2, duplicate_ack: 7 };
        flow.in_window.retransmits_by = ByCause { nack: 5, ..retransmits_by };
        FlowRecord { retransmits: id % 5, retransmits_by, trims: id, ..flow }
    };
    let sample = |i: u32| PortSample {
        at: micros(u64::from(i)),
        port: PortId(i % 3),
        queue_bytes: u64::from(i) * 1500,
        queue_packets: i,
        sent_bytes: u64::MAX - u64::from(i),
        paused: punctual_core::Duration::from_picos(u64::from(i) * 7),
    };
    let outcome = Outcome {
        flows: (0..flows).map(kind).collect(),
        totals: Totals { ended_at: micros(50), delivered_bytes: 12_345, ..Totals::default() },
        samples: (0..10).map(sample).collect(),
        ..Outcome::default()
    };
    let rows = FlowRow::all(&outcome, &["ndp"], |_| Some(Duration::from_micros(7)));
    let facts = RunFacts { transport: "ndp", seed: 3, ..RunFacts::default() };
    RunFiles {
        summary: stats::summarise(&outcome, &rows, &facts),
        flows: rows,
        queues: outcome.samples,
        gauges: Vec::new(),
        pauses: Vec::new(),
        ports: vec![PortRow { from: "a".into(), utilisation: Some(0.5), ..PortRow::default() }],
        network: Some(NetworkTrace {
            frame: Duration::from_micros(1),
            ended_at: micros(50),
            cells: vec![PortFrame { frame: 49, ..PortFrame::default() }],
        }),
        manifest: Manifest::new("[network]\nhosts = 2\n", "ndp", 3),
    }
}

impl RunFiles {
    fn as_run(&self) -> Run<'_> {
        Run {
            ports: &self.ports,
            network: self.network.as_ref(),
            ..Run::new(&self.flows, &self.queues, &self.summary, &self.manifest)
        }
    }
}

/// A run written to a fresh place.
fn written(flows: u32) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("ndp-3");
    write(&dir, &run_files(flows).as_run(), WriteOptions::default()).unwrap();
    (place, dir)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const DISK: Disk = Disk { sync: true };

#[test]
fn write__reads_back_the_same() {
    for flows in [0, 1, 70_000] {
        let (_place, dir) = written(flows);
        let files = run_files(flows);
        let mut back = read(&dir).unwrap();
        assert_eq!(back.manifest.files.len(), 5);
        back.manifest.files.clear();
        back.manifest.digest.clear();
        assert!(back == files, "{flows} flows");
        assert!(is_complete(&dir));
    }
}

#[test]
fn write__same_input_gives_same_bytes() {
    let (_a, a) = written(5_000);
    let (_b, b) = written(5_000);
    for name in [FLOWS_FILE, QUEUES_FILE, SUMMARY_FILE, MANIFEST_FILE] {
        assert!(fs::read(a.join(name)).unwrap() == fs::read(b.join(name)).unwrap(), "{name}");
    }
}

#[test]
fn write_unsynced__same_bytes_and_damage_is_found() {
    let (_a, synced) = written(100);
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let files = run_files(100);
    write_unsynced(&dir, &files.as_run(), WriteOptions::default()).unwrap();
    for name in [FLOWS_FILE, QUEUES_FILE, SUMMARY_FILE, MANIFEST_FILE] {
        assert!(
            fs::read(dir.join(name)).unwrap() == fs::read(synced.join(name)).unwrap(),
            "{name}"
        );
    }
    // What a power failure leaves of a file that was not synced.
    let manifest = crate::read_manifest(&dir).unwrap();
    crate::verify(&dir, &manifest).unwrap();
    fs::write(dir.join(FLOWS_FILE), "").unwrap();
    assert!(crate::verify(&dir, &manifest).is_err());
}

#[test]
fn write__machine_is_named_in_a_file_of_its_own() {
    let (_place, dir) = written(10);
    let files = run_files(10);
    let run = Run { host: Some(&Host::here()), ..files.as_run() };
    let alone = fs::read(dir.join(MANIFEST_FILE)).unwrap();
    let overwrite = WriteOptions { overwrite: true, csv: false };
    for _ in 0..2 {
        write(&dir, &run, overwrite).unwrap();
    }
    assert!(fs::read(dir.join(MANIFEST_FILE)).unwrap() == alone, "the manifest is the same");
    let host: Host = serde_json::from_slice(&fs::read(dir.join(HOST_FILE)).unwrap()).unwrap();
    assert_eq!(host.os, std::env::consts::OS);
}

#[test]
fn write__columns_carry_their_unit() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let (_place, dir) = written(10);
    let file = fs::File::open(dir.join(FLOWS_FILE)).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key)?.value.as_deref();
    assert_eq!(value("unit.start_ps"), Some("ps"));
    assert_eq!(value("unit.size_bytes"), Some("bytes"));
    assert_eq!(value("unit.flow"), None);
    assert_eq!(value("about.src"), Some("sending host"));
}

#[test]
fn write__adds_files_on_request() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("deep/down/ndp-3");
    let files = run_files(3);
    let run = Run { extra: &[("fct.svg", b"<svg/>")], ..files.as_run() };
    write(&dir, &run, WriteOptions { csv: true, overwrite: false }).unwrap();
    let expected = [
        "fct.svg",
        "flows.csv",
        "flows.parquet",
        "manifest.json",
        "network.parquet",
        "ports.parquet",
        "queues.parquet",
        "summary.json",
    ];
    assert_eq!(names(&dir), expected);
    assert_eq!(fs::read(dir.join("fct.svg")).unwrap(), b"<svg/>");
    assert_eq!(read(&dir).unwrap().manifest.files.len(), 7);

    for bad in ["flows.parquet", "network.parquet", "manifest.json", "../x", "a/b", "", ".."] {
        let run = Run { extra: &[(bad, b"")], ..files.as_run() };
        let error = write(&place.path().join("x"), &run, WriteOptions::default()).unwrap_err();
        assert!(matches!(error, WriteError::FileName(_)), "{bad}: {error}");
    }
}

#[test]
fn write__refuses_a_finished_run_unless_told() {
    let (place, dir) = written(10);
    let more = run_files(20);
    let error = write(&dir, &more.as_run(), WriteOptions::default()).unwrap_err();
    assert!(matches!(error, WriteError::Exists(_)), "{error}");
    assert_eq!(read(&dir).unwrap().flows.len(), 10);

    let overwrite = WriteOptions { overwrite: true, csv: false };
    write(&dir, &more.as_run(), overwrite).unwrap();
    assert_eq!(read(&dir).unwrap().flows.len(), 20);
    assert_eq!(names(place.path()), ["ndp-3"]);
}

#[test]
fn write__never_overwrites_what_no_run_wrote() {
    let (_place, dir) = written(10);
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    let overwrite = WriteOptions { overwrite: true, csv: false };
    let error = write(&dir, &run_files(1).as_run(), overwrite).unwrap_err();
    assert!(error.to_string().contains("`notes.txt`"), "{error}");

    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("thesis.tex"), "mine").unwrap();
    let error = write(place.path(), &run_files(1).as_run(), overwrite).unwrap_err();
    assert!(error.to_string().contains("`thesis.tex`"), "{error}");
    let file = place.path().join("thesis.tex");
    assert!(write(&file, &run_files(1).as_run(), overwrite).is_err());
    assert_eq!(names(place.path()), ["thesis.tex"]);
}

#[test]
fn write__fills_an_empty_directory_and_follows_a_link() {
    let place = tempfile::tempdir().unwrap();
    let (dir, link) = (place.path().join("empty"), place.path().join("link"));
    fs::create_dir(&dir).unwrap();
    write(&dir, &run_files(1).as_run(), WriteOptions::default()).unwrap();
    assert!(is_complete(&dir));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        let overwrite = WriteOptions { overwrite: true, csv: false };
        write(&link, &run_files(2).as_run(), overwrite).unwrap();
        assert!(link.is_symlink());
        assert_eq!(read(&dir).unwrap().flows.len(), 2);
        assert_eq!(names(place.path()), ["empty", "link"]);
    }
}

/// A disk that goes wrong.
#[derive(Default)]
struct Faulty {
    /// Bytes until the disk is full.
    space: Option<usize>,
    /// The file that ends up on a device that is always full.
    on_full_device: Option<&'static str>,
    /// Nothing can be created.
    read_only: bool,
    /// Waiting for the disk fails.
    sync_fails: bool,
    /// Directories cannot be renamed.
    rename_fails: bool,
    left: std::sync::Arc<Mutex<usize>>,
}

struct FaultySink {
    file: fs::File,
    left: Option<std::sync::Arc<Mutex<usize>>>,
    sync_fails: bool,
}

impl Write for FaultySink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let Some(left) = &self.left else {
            return self.file.write(data);
        };
        let mut left = left.lock().unwrap();
        let fits = data.len().min(*left);
        if fits == 0 && !data.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *left -= fits;
        self.file.write(&data[..fits])
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for FaultySink {
    fn sync(&mut self) -> io::Result<()> {
        if self.sync_fails { Err(io::Error::other("disk on fire")) } else { Ok(()) }
    }
}

impl Storage for Faulty {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if self.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        DISK.create_dir(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
        let file = if self.on_full_device.is_some_and(|name| path.ends_with(name)) {
            fs::OpenOptions::new().write(true).open("/dev/full")?
        } else {
            fs::File::create_new(path)?
        };
        let left = self.space.map(|_| self.left.clone());
        Ok(Box::new(FaultySink { file, left, sync_fails: self.sync_fails }))
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        DISK.sync_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.rename_fails {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        DISK.rename(from, to)
    }
}

/// Writes to a faulty disk and makes sure that nothing is left of it.
fn fails_cleanly(storage: Faulty) -> String {
    let place = tempfile::tempdir().unwrap();
    *storage.left.lock().unwrap() = storage.space.unwrap_or_default();
    let dir = place.path().join("ndp-3");
    let files = run_files(500);
    let options = WriteOptions { csv: true, overwrite: false };
    let error = write_to(&storage, &dir, &files.as_run(), options).unwrap_err();
    assert_eq!(names(place.path()), Vec::<String>::new(), "{error}");
    assert!(matches!(error, WriteError::Io { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn write__full_disk_leaves_nothing_behind_wherever_it_strikes() {
    let (_place, dir) = written(500);
    let files = read(&dir).unwrap().manifest.files;
    let parquet = files[FLOWS_FILE].bytes as usize;
    for space in [0, 1, 4, parquet / 2, parquet - 1, parquet, parquet + 100, 20_000] {
        let error = fails_cleanly(Faulty { space: Some(space), ..Faulty::default() });
        assert!(error.contains("the disk is full; free some space"), "{space}: {error}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn write__full_device_is_named_with_the_file() {
    for name in [FLOWS_FILE, QUEUES_FILE, SUMMARY_FILE, CSV_FILE, MANIFEST_FILE] {
        let error = fails_cleanly(Faulty { on_full_device: Some(name), ..Faulty::default() });
        assert!(error.contains(name) && error.contains("the disk is full"), "{error}");
    }
}

#[test]
fn write__other_refusals_leave_nothing_behind() {
    let read_only = fails_cleanly(Faulty { read_only: true, ..Faulty::default() });
    assert!(read_only.contains("the file system is read-only"), "{read_only}");
    let sync = fails_cleanly(Faulty { sync_fails: true, ..Faulty::default() });
    assert!(sync.contains("disk on fire"), "{sync}");
    let rename = fails_cleanly(Faulty { rename_fails: true, ..Faulty::default() });
    assert!(rename.contains("permission denied"), "{rename}");
}

#[test]
fn write__failed_overwrite_keeps_the_old_run() {
    let (place, dir) = written(10);
    let storage = Faulty { space: Some(100), ..Faulty::default() };
    let overwrite = WriteOptions { overwrite: true, csv: false };
    assert!(write_to(&storage, &dir, &run_files(20).as_run(), overwrite).is_err());
    assert_eq!(read(&dir).unwrap().flows.len(), 10);
    assert_eq!(names(place.path()), ["ndp-3"]);
}

#[test]
fn overwrite__a_run_that_another_process_finished_meanwhile_is_replaced() {
    /// A disk on which another process finishes the same run just before ours is renamed.
    struct Overtaken;
    impl Storage for Overtaken {
        fn create_dir(&self, path: &Path) -> io::Result<()> {
            DISK.create_dir(path)
        }
        fn create(&self, path: &Path) -> io::Result<Box<dyn Sink>> {
            DISK.create(path)
        }
        fn sync_dir(&self, path: &Path) -> io::Result<()> {
            DISK.sync_dir(path)
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            if !to.exists() {
                // Under a partial name of its own, because this is one process.
                let aside = to.with_file_name("aside");
                write(&aside, &run_files(5).as_run(), WriteOptions::default()).unwrap();
                fs::rename(aside, to).unwrap();
            }
            DISK.rename(from, to)
        }
    }
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("ndp-3");
    let once = WriteOptions { overwrite: false, csv: false };
    assert!(write_to(&Overtaken, &dir, &run_files(10).as_run(), once).is_err());
    assert_eq!(read(&dir).unwrap().flows.len(), 5);
    fs::remove_dir_all(&dir).unwrap();
    let overwrite = WriteOptions { overwrite: true, csv: false };
    write_to(&Overtaken, &dir, &run_files(10).as_run(), overwrite).unwrap();
    assert_eq!(read(&dir).unwrap().flows.len(), 10);
    assert_eq!(names(place.path()), ["ndp-3"]);
}

#[test]
fn leftovers__are_recognised_and_never_taken_for_whole() {
    let (place, dir) = written(10);
    // A program killed just before the last rename leaves every file under a partial name.
    let partial = place.path().join("d3-1.partial-4242");
    fs::rename(&dir, &partial).unwrap();
    assert!(!is_complete(&partial));
    let error = read(&partial).unwrap_err();
    assert!(matches!(error, ReadError::Partial(_)), "{error}");
    assert!(!is_complete(&place.path().join("d3-1")));
    let found = leftovers(place.path()).unwrap();
    assert_eq!((found.len(), found[0].writer), (1, 4242));
    assert_eq!(found[0].path, partial);
    assert_eq!(leftovers(&place.path().join("nowhere")).unwrap(), []);
}

#[test]
fn write__replaces_a_leftover_of_the_same_process_number() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("ndp-3");
    let partial = partial_path(&dir).unwrap();
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join(FLOWS_FILE), "half").unwrap();
    write(&dir, &run_files(1).as_run(), WriteOptions::default()).unwrap();
    assert_eq!(names(place.path()), ["ndp-3"]);
    assert!(is_complete(&dir));
}

#[test]
fn read__truncated_file_is_named() {
    for name in [FLOWS_FILE, QUEUES_FILE, SUMMARY_FILE] {
        let (_place, dir) = written(100);
        let path = dir.join(name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(!is_complete(&dir));
        let error = read(&dir).unwrap_err();
        assert!(matches!(error, ReadError::Length { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn read__damaged_file_of_the_right_length_is_named() {
    let (_place, dir) = written(100);
    let path = dir.join(FLOWS_FILE);
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 40..].fill(0);
    fs::write(&path, bytes).unwrap();
    let error = read(&dir).unwrap_err();
    assert!(matches!(error, ReadError::Changed(_)), "{error}");
    assert!(error.to_string().contains(FLOWS_FILE), "{error}");

    let (_place, dir) = written(100);
    let path = dir.join(SUMMARY_FILE);
    fs::write(&path, vec![b'x'; fs::read(&path).unwrap().len()]).unwrap();
    let error = read(&dir).unwrap_err();
    assert!(matches!(error, ReadError::Changed(_)), "{error}");
    assert!(error.to_string().contains(SUMMARY_FILE), "{error}");
}

#[test]
fn read__wrong_columns_are_named() {
    let (_place, dir) = written(1);
    fs::copy(dir.join(QUEUES_FILE), dir.join(FLOWS_FILE)).unwrap();
    let error = crate::parquet_io::read_table::<FlowRow>(&dir.join(FLOWS_FILE)).unwrap_err();
    assert!(error.to_string().contains("column `flow` is missing"), "{error}");
}

#[test]
fn read__missing_files_are_named() {
    let (place, dir) = written(10);
    fs::remove_file(dir.join(QUEUES_FILE)).unwrap();
    assert!(!is_complete(&dir));
    let error = read(&dir).unwrap_err();
    assert!(matches!(error, ReadError::Missing(_)), "{error}");
    fs::remove_file(dir.join(MANIFEST_FILE)).unwrap();
    let error = read(&dir).unwrap_err();
    assert!(matches!(error, ReadError::NoManifest(_)), "{error}");
    let error = read(&place.path().join("nowhere")).unwrap_err();
    assert!(matches!(error, ReadError::NotFound(_)), "{error}");
}

#[test]
fn read__another_format_is_refused_with_its_version() {
    let (_place, dir) = written(10);
    fs::write(dir.join(MANIFEST_FILE), r#"{"format": 9, "punctual": "7.1.0"}"#).unwrap();
    let error = read(&dir).unwrap_err();
    assert!(matches!(error, ReadError::Format { found: 9, .. }), "{error}");
    assert!(error.to_string().contains("punctual 7.1.0"), "{error}");
    fs::write(dir.join(MANIFEST_FILE), "{").unwrap();
    assert!(matches!(read(&dir).unwrap_err(), ReadError::Json { .. }));
}

#[test]
fn read__a_changed_manifest_is_found_out_and_may_be_written_anew() {
    let (_place, dir) = written(10);
    let path = dir.join(MANIFEST_FILE);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("hosts = 2", "hosts = 3")).unwrap();
    let error = read(&dir).unwrap_err();
    assert!(matches!(error, ReadError::Changed(_)), "{error}");
    // A manifest that is no JSON any more does not make the directory someone else's.
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert!(!is_complete(&dir));
    let overwrite = WriteOptions { overwrite: true, csv: false };
    write(&dir, &run_files(10).as_run(), overwrite).unwrap();
    assert!(is_complete(&dir));
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    fs::write(dir.join("thesis.txt"), "years of work").unwrap();
    assert!(write(&dir, &run_files(10).as_run(), overwrite).is_err());
}

#[test]
fn write__every_parquet_file_says_what_it_is_of() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("ndp-3");
    let mut files = run_files(10);
    files.manifest.name = "search".into();
    files.manifest.traffic = vec!["queries".into()];
    let value = crate::AxisValue { axis: "fan-in".into(), label: "25".into(), set: Vec::new() };
    files.manifest.point = vec![value];
    write(&dir, &files.as_run(), WriteOptions::default()).unwrap();
    for name in [FLOWS_FILE, QUEUES_FILE, PORTS_FILE, NETWORK_FILE] {
        let reader = SerializedFileReader::new(fs::File::open(dir.join(name)).unwrap()).unwrap();
        let metadata = reader.metadata().file_metadata();
        let pairs = metadata.key_value_metadata().unwrap();
        let value = |key: &str| {
            let pair = pairs.iter().find(|pair| pair.key == key).expect(key);
            pair.value.clone().unwrap()
        };
        assert_eq!((&*value("scenario"), &*value("transport")), ("search", "ndp"), "{name}");
        assert_eq!((&*value("seed"), &*value("point")), ("3", "fan-in=25"), "{name}");
        assert_eq!(value("traffic"), "queries", "{name}");
        assert_eq!(value("time_origin"), "start of the run", "{name}");
    }
}

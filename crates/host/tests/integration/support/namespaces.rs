//! Two network namespaces, joined by veth pairs.

use punctual_testkit::{TestNamespaces, ip};

/// Two namespaces, removed at the end, however the test ends. Link n joins 10.n.0.1 of the first with
/// 10.n.0.2 of the second.
pub(crate) struct Namespaces(TestNamespaces);

impl Namespaces {
    /// Namespaces with as many links, or `None` and a note why they cannot be had here.
    pub(crate) fn with_links(links: usize) -> Option<Namespaces> {
        match Namespaces::create(links) {
            Ok(namespaces) => Some(namespaces),
            Err(error) => {
                let forbidden = std::env::var_os("PUNCTUAL_NO_SKIPS").is_some();
                assert!(!forbidden, "CAP_NET_ADMIN is needed: {error}");
                eprintln!("SKIPPED: network namespaces need CAP_NET_ADMIN and `ip`: {error}");
                None
            }
        }
    }

    fn create(links: usize) -> Result<Namespaces, String> {
        let namespaces = TestNamespaces::create(2)?;
        let [a, b] = namespaces.names() else { return Err("no two names".into()) };
        for link in 0..links {
            let dev = format!("nic{link}");
            ip(&["-n", a, "link", "add", &dev, "type", "veth", "peer", "name", &dev, "netns", b])?;
            for (end, name) in [(1, a), (2, b)] {
                ip(&["-n", name, "addr", "add", &format!("10.{link}.0.{end}/24"), "dev", &dev])?;
                ip(&["-n", name, "link", "set", &dev, "up"])?;
            }
        }
        Ok(Namespaces(namespaces))
    }

    /// Runs `ip` in a namespace: `link set nic0 down`.
    pub(crate) fn ip(&self, end: usize, args: &str) {
        let args: Vec<&str> = args.split(' ').collect();
        ip(&[&["-n", &self.0.names()[end]], &args[..]].concat()).expect("ip works");
    }

    /// Calls `call` in a thread in a namespace, in which its sockets are.
    pub(crate) fn within<T: Send>(&self, end: usize, call: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.0.names()[end]);
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let file = std::fs::File::open(path).expect("the namespace");
                let kind = Some(rustix::thread::LinkNameSpaceType::Network);
                rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind)
                    .expect("setns works");
                call()
            });
            thread.join().expect("no panic")
        })
    }
}

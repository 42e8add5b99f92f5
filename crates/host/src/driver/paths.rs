//! Paths to peers: which source ports and NICs of this host reach which addresses of a peer.
//!
//! A peer has one main address, by which flows and applications know it. Packets of it may come from
//! other sources, which have joined ([`PathMessage`]). A large flow is spread over all paths that
//! work: a path that was not confirmed, that fails or that falls silent is replaced by another.

use super::path_messages::{JoinAnswer, OFFERED_MAX, PathMessage, Token};
use super::sockets::{Sockets, Via};
use ahash::HashMap;
use punctual_core::rng::Stream;
use punctual_core::{Duration, Instant};
use punctual_wire::WireName;
use std::net::SocketAddr;

/// How often a peer is asked for its addresses, and a path is tried, at first.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Times that a peer is asked before its paths are left alone.
const ASKS_MAX: u32 = 8;
/// Time between two tries of a path that does not answer, at most.
const TRY_AT_LEAST: Duration = Duration::from_secs(2);
/// How long a path may bring nothing back, while another one does, before it is left.
const UNHEARD_MAX: Duration = Duration::from_millis(300);
/// How long a path may bring nothing back before it is asked whether it works.
const UNHEARD_ASK: Duration = Duration::from_millis(100);
/// How often paths are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Most sources that have joined, of one peer and in all.
const ALIASES_PER_PEER: usize = 64;
const ALIASES_MAX: usize = 1 << 14;
/// How long a source that is not heard keeps its place.
const ALIAS_LIFE: Duration = Duration::from_secs(60);
/// Most peers whose last source is remembered.
const HEARD_MAX: usize = 1 << 16;
/// How long a token is valid, at least, in seconds.
const TOKEN_SECS: u64 = 30;

/// A source that belongs to a peer with another main address.
#[derive(Debug, Clone, Copy)]
struct Alias {
    main: SocketAddr,
    incarnation: u16,
    heard_at: Instant,
}

/// A path to a peer, from one socket of this host.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// Which address of the peer it leads to.
    remote: usize,
    is_up: bool,
    /// The number of its last `Join`.
    number: u64,
    /// The peer's token for this source.
    own: Token,
    try_at: Instant,
    tries: u32,
    heard_at: Instant,
    /// When a packet was sent for the first time since the path was last heard.
    unheard_since: Option<Instant>,
}

/// The paths to one peer.
#[derive(Debug)]
pub(super) struct PeerPaths {
    /// The peer's addresses, the main one first.
    remotes: Vec<SocketAddr>,
    /// The path by which everything goes until others are confirmed.
    primary: usize,
    /// One for each socket of this host.
    paths: Vec<Path>,
    /// The peer's token for this host's main address, and how the peer sees that address.
    token: Option<(Token, SocketAddr)>,
    asked: u64,
    ask_at: Instant,
    asks: u32,
    /// Open flows that are spread over the paths.
    flows: u32,
}

/// What the driver knows of the sources and paths of its peers.
#[derive(Debug)]
pub(super) struct Paths {
    secret: [u8; 32],
    random: Stream,
    transport: u8,
    aliases: HashMap<SocketAddr, Alias>,
    /// How each peer was last heard, by its main address. Kept if the host has several addresses.
    heard: HashMap<SocketAddr, Via>,
    last_heard: Option<(SocketAddr, Via)>,
    peers: HashMap<SocketAddr, PeerPaths>,
    /// Packets to send.
    pub(super) out: Vec<(Via, Vec<u8>)>,
}

impl Paths {
    pub(super) fn new(transport: u8) -> Self {
        let secret = crate::seal::random_bytes();
        let seed = crate::seal::random_bytes();
        let random = Stream::from_seed(u64::from_be_bytes(*seed.first_chunk().unwrap_or(&[0; 8])));
        Paths {
            secret,
            random,
            transport,
            aliases: HashMap::default(),
            heard: HashMap::default(),
            last_heard: None,
            peers: HashMap::default(),
            out: Vec::new(),
        }
    }

    /// The main address of the peer that sent a packet.
    #[inline]
    pub(super) fn main_of(&mut self, source: SocketAddr, incarnation: u16) -> SocketAddr {
        if self.aliases.is_empty() {
            return source;
        }
        match self.aliases.get(&source) {
            Some(alias) if alias.incarnation == incarnation => alias.main,
            Some(_) => {
                // Another process has got this port.
                self.aliases.remove(&source);
                source
            }
            None => source,
        }
    }

    /// The main address of the peer at this address.
    pub(super) fn main_address(&self, address: SocketAddr) -> SocketAddr {
        self.aliases.get(&address).map_or(address, |alias| alias.main)
    }

    /// Notes how a peer was heard.
    #[inline]
    pub(super) fn note_heard(
        &mut self,
        main: SocketAddr,
        via: &Via,
        sockets: &Sockets,
        now: Instant,
    ) {
        if sockets.len() == 1 && self.aliases.is_empty() && !sockets.is_wildcard(0) {
            return;
        }
        if !self.peers.is_empty()
            && let Some(peer) = self.peers.get_mut(&main)
        {
            peer.note_heard(via, now);
        }
        if self.last_heard == Some((main, *via)) {
            return;
        }
        self.last_heard = Some((main, *via));
        if self.heard.len() >= HEARD_MAX && !self.heard.contains_key(&main) {
            self.heard.clear();
        }
        self.heard.insert(main, *via);
    }

    /// How to reach a peer with a single packet: as it was last heard.
    pub(super) fn back_to(&self, main: SocketAddr) -> Via {
        self.heard.get(&main).copied().unwrap_or(Via::main(main))
    }

    /// How to reach a peer's main address, from the address by which it knows this host.
    fn to_main(&self, main: SocketAddr, sockets: &Sockets) -> Via {
        match self.heard.get(&main) {
            Some(via) => {
                let socket = sockets.nic_of(via.socket) as u16;
                let local = via.local.filter(|_| sockets.is_wildcard(socket));
                Via { socket, local, remote: main }
            }
            None => Via { socket: sockets.main_towards(main) as u16, local: None, remote: main },
        }
    }

    /// How data of a flow that is not spread leaves.
    pub(super) fn single(&self, main: SocketAddr, sockets: &Sockets) -> Via {
        if sockets.len() == 1 && !sockets.is_wildcard(0) {
            return Via::main(main);
        }
        match self.peers.get(&main) {
            Some(peer) => peer.via(peer.pick(peer.primary, sockets.nics()), self, sockets),
            None => self.to_main(main, sockets),
        }
    }

    /// Begins to use several paths to a peer, for a flow.
    pub(super) fn open(&mut self, main: SocketAddr, sockets: &mut Sockets, now: Instant) {
        sockets.spread();
        let primary = usize::from(self.to_main(main, sockets).socket);
        let peer = self.peers.entry(main).or_insert_with(|| PeerPaths {
            remotes: vec![main],
            primary,
            paths: Vec::new(),
            token: None,
            asked: 0,
            ask_at: now,
            asks: 0,
            flows: 0,
        });
        while peer.paths.len() < sockets.len() {
            let is_up = peer.paths.len() == primary;
            peer.paths.push(Path {
                remote: 0,
                is_up,
                number: self.random.bits(),
                own: [0; 16],
                try_at: now,
                tries: 0,
                heard_at: now,
                unheard_since: None,
            });
        }
        if peer.flows == 0 && peer.asks >= ASKS_MAX {
            (peer.asks, peer.ask_at) = (0, now);
        }
        peer.flows += 1;
    }

    /// A flow that was spread has ended.
    pub(super) fn close(&mut self, main: SocketAddr) {
        if let Some(peer) = self.peers.get_mut(&main) {
            peer.flows = peer.flows.saturating_sub(1);
        }
    }

    /// The NIC by which a packet of a spread flow leaves that was meant for `nic`.
    pub(super) fn nic_for(&self, main: SocketAddr, path: usize, sockets: &Sockets) -> usize {
        match self.peers.get(&main) {
            Some(peer) => sockets.nic_of(peer.pick(path, sockets.nics()) as u16),
            None => 0,
        }
    }

    /// How a packet of a spread flow on this path leaves, and a note that it does.
    pub(super) fn send(
        &mut self,
        main: SocketAddr,
        path: usize,
        sockets: &Sockets,
        now: Instant,
    ) -> Via {
        let nics = sockets.nics();
        let Some(peer) = self.peers.get_mut(&main) else { return self.to_main(main, sockets) };
        let picked = peer.pick(path, nics);
        if let Some(path) = peer.paths.get_mut(picked) {
            path.unheard_since.get_or_insert(now);
        }
        match self.peers.get(&main) {
            Some(peer) => peer.via(picked, self, sockets),
            None => Via::main(main),
        }
    }

    /// A packet could not be sent on this path. Returns whether the peer has others.
    pub(super) fn note_failure(&mut self, via: &Via, now: Instant) -> bool {
        let main = self.main_address(via.remote);
        let Some(peer) = self.peers.get_mut(&main) else { return false };
        let others = peer
            .paths
            .iter()
            .enumerate()
            .any(|(at, path)| at != usize::from(via.socket) && path.is_up);
        let Some(path) = peer.paths.get_mut(usize::from(via.socket)) else { return false };
        if path.is_up && others {
            path.fail(now);
        }
        others
    }

    /// Looks at all paths in use: asks, tries and leaves them. Returns when to look again.
    pub(super) fn look(
        &mut self,
        name: WireName,
        sockets: &Sockets,
        now: Instant,
    ) -> Option<Instant> {
        let mut any = false;
        let mains: Vec<SocketAddr> =
            self.peers.iter().filter(|(_, peer)| peer.flows > 0).map(|(main, _)| *main).collect();
        for main in mains {
            any = true;
            self.look_at(main, name, sockets, now);
        }
        if !any {
            return None;
        }
        Some(now.saturating_add(LOOK_EVERY))
    }

    fn look_at(&mut self, main: SocketAddr, name: WireName, sockets: &Sockets, now: Instant) {
        let back = self.to_main(main, sockets);
        let Some(peer) = self.peers.get_mut(&main) else { return };
        peer.leave_silent_paths(now);
        if peer.paths.len() > 1 && peer.token.is_none() {
            if now >= peer.ask_at && peer.asks < ASKS_MAX {
                peer.asked = self.random.bits();
                peer.ask_at = now.saturating_add(ASK_EVERY.saturating_mul(1 << peer.asks.min(5)));
                peer.asks += 1;
                let ask = PathMessage::Ask { number: peer.asked };
                self.out.push((back, ask.to_bytes(self.transport, name)));
            }
            return;
        }
        let Some((token, seen)) = peer.token else { return };
        let mut joins = Vec::new();
        for at in 0..peer.paths.len() {
            let remotes = peer.remotes.len();
            let path = &mut peer.paths[at];
            let is_quiet =
                path.unheard_since.is_some_and(|since| now >= since.saturating_add(UNHEARD_ASK));
            if now < path.try_at || path.is_up && !is_quiet {
                continue;
            }
            if !path.is_up && path.tries > 0 && path.tries.is_multiple_of(3) && remotes > 1 {
                // Perhaps another address of the peer can be reached from here.
                path.remote = (path.remote + 1) % remotes;
                path.own = [0; 16];
            }
            let wait = ASK_EVERY.saturating_mul(1 << path.tries.min(6));
            path.try_at = now.saturating_add(wait.min(TRY_AT_LEAST));
            path.tries += 1;
            joins.push((at, path.number, path.own));
        }
        for (at, number, own) in joins {
            self.join(main, at, number, token, seen, own, name, sockets);
        }
    }

    #[allow(clippy::too_many_arguments)] // One message with all its fields.
    fn join(
        &mut self,
        main: SocketAddr,
        at: usize,
        number: u64,
        token: Token,
        seen: SocketAddr,
        own: Token,
        name: WireName,
        sockets: &Sockets,
    ) {
        let Some(peer) = self.peers.get(&main) else { return };
        let via = peer.via(at, self, sockets);
        let join = PathMessage::Join { number, token, main: seen, own };
        self.out.push((via, join.to_bytes(self.transport, name)));
    }

    /// Handles a packet about paths, from a process with this incarnation.
    pub(super) fn handle(
        &mut self,
        message: PathMessage,
        via: &Via,
        incarnation: u16,
        name: WireName,
        sockets: &Sockets,
        now: Instant,
    ) {
        match message {
            PathMessage::Ask { number } => {
                let more = sockets.addresses().take(OFFERED_MAX).collect();
                let token = self.token(via.remote, secs(now));
                let offer = PathMessage::Offer { number, token, seen: via.remote, more };
                self.out.push((*via, offer.to_bytes(self.transport, name)));
            }
            PathMessage::Offer { number, token, seen, more } => {
                let main = self.main_of(via.remote, incarnation);
                let Some(peer) = self.peers.get_mut(&main).filter(|p| p.asked == number) else {
                    return;
                };
                peer.accept_offer(token, seen, &more, sockets.nics(), now);
                self.look_at(main, name, sockets, now);
            }
            PathMessage::Join { number, token, main, own } => {
                let answer = self.judge_join(main, &token, &own, via.remote, incarnation, now);
                let own = self.token(via.remote, secs(now));
                let joined = PathMessage::Joined { number, own, answer };
                self.out.push((*via, joined.to_bytes(self.transport, name)));
            }
            PathMessage::Joined { number, own, answer } => {
                self.handle_joined(number, own, answer, via, incarnation, name, sockets, now);
            }
        }
    }

    /// Decides whether a source belongs to the peer at `main`.
    fn judge_join(
        &mut self,
        main: SocketAddr,
        token: &Token,
        own: &Token,
        source: SocketAddr,
        incarnation: u16,
        now: Instant,
    ) -> JoinAnswer {
        if source == main {
            return JoinAnswer::Done;
        }
        if let Some(alias) = self.aliases.get_mut(&source)
            && alias.main == main
            && alias.incarnation == incarnation
        {
            alias.heard_at = now;
            return JoinAnswer::Done;
        }
        let secs = secs(now);
        if !self.is_valid(main, secs, token) {
            return JoinAnswer::AskAgain;
        }
        if !self.is_valid(source, secs, own) {
            return JoinAnswer::Prove;
        }
        self.add_alias(source, Alias { main, incarnation, heard_at: now });
        JoinAnswer::Done
    }

    fn add_alias(&mut self, source: SocketAddr, alias: Alias) {
        let now = alias.heard_at;
        let is_alive = |a: &Alias| now.saturating_since(a.heard_at) < ALIAS_LIFE;
        if self.aliases.len() >= ALIASES_MAX {
            self.aliases.retain(|_, alias| is_alive(alias));
        }
        let of_peer = self.aliases.values().filter(|a| a.main == alias.main).count();
        if of_peer >= ALIASES_PER_PEER {
            // The source that was silent for longest makes room.
            let oldest = self
                .aliases
                .iter()
                .filter(|(_, a)| a.main == alias.main)
                .min_by_key(|(_, a)| a.heard_at)
                .map(|(source, _)| *source);
            oldest.and_then(|oldest| self.aliases.remove(&oldest));
        }
        if self.aliases.len() < ALIASES_MAX {
            self.aliases.insert(source, alias);
        }
    }

    #[allow(clippy::too_many_arguments)] // One message with its context.
    fn handle_joined(
        &mut self,
        number: u64,
        own: Token,
        answer: JoinAnswer,
        via: &Via,
        incarnation: u16,
        name: WireName,
        sockets: &Sockets,
        now: Instant,
    ) {
        let at = usize::from(via.socket);
        let found = self.peers.iter_mut().find_map(|(main, peer)| {
            let path = peer.paths.get(at)?;
            let is_it = path.number == number && peer.remotes.get(path.remote) == Some(&via.remote);
            is_it.then_some((*main, peer))
        });
        let Some((main, peer)) = found else { return };
        match answer {
            JoinAnswer::AskAgain => {
                (peer.token, peer.ask_at, peer.asks) = (None, now, 0);
            }
            JoinAnswer::Prove => {
                let path = &mut peer.paths[at];
                (path.own, path.tries) = (own, path.tries.max(1));
                let Some((token, seen)) = peer.token else { return };
                self.join(main, at, number, token, seen, own, name, sockets);
            }
            JoinAnswer::Done => {
                let path = &mut peer.paths[at];
                (path.is_up, path.tries, path.heard_at) = (true, 0, now);
                path.unheard_since = None;
                if via.remote != main {
                    self.add_alias(via.remote, Alias { main, incarnation, heard_at: now });
                }
            }
        }
    }

    fn token(&self, address: SocketAddr, secs: u64) -> Token {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        match address {
            SocketAddr::V4(v4) => hasher.update(&v4.ip().octets()),
            SocketAddr::V6(v6) => hasher.update(&v6.ip().octets()),
        };
        hasher.update(&address.port().to_be_bytes());
        hasher.update(&(secs / TOKEN_SECS).to_be_bytes());
        let mut token = [0; 16];
        token.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        token
    }

    /// Whether a token is that of this period or the one before.
    fn is_valid(&self, address: SocketAddr, secs: u64, token: &Token) -> bool {
        let before = secs.checked_sub(TOKEN_SECS);
        *token == self.token(address, secs)
            || before.is_some_and(|before| *token == self.token(address, before))
    }

    /// Sources beside the main addresses of peers.
    pub(super) fn sources(&self) -> usize {
        self.aliases.len()
    }

    /// Paths to a peer that work.
    pub(super) fn working(&self, main: SocketAddr) -> usize {
        self.peers.get(&main).map_or(1, |peer| peer.paths.iter().filter(|p| p.is_up).count())
    }
}

impl Path {
    fn fail(&mut self, now: Instant) {
        self.is_up = false;
        self.unheard_since = None;
        self.tries = 0;
        self.try_at = now.saturating_add(ASK_EVERY);
    }
}

impl PeerPaths {
    /// The path that serves for `path`: itself if it works, else another of its NIC, else any.
    fn pick(&self, path: usize, nics: usize) -> usize {
        let count = self.paths.len().max(1);
        let path = path % count;
        let is_up = |at: usize| self.paths.get(at).is_some_and(|path| path.is_up);
        if is_up(path) {
            return path;
        }
        let same_nic = (1..count / nics.max(1)).map(|step| (path + step * nics) % count);
        let any = (1..count).map(|step| (path + step) % count);
        same_nic.chain(any).find(|at| is_up(*at)).unwrap_or(self.primary)
    }

    fn via(&self, at: usize, all: &Paths, sockets: &Sockets) -> Via {
        let remote = self.paths.get(at).and_then(|path| self.remotes.get(path.remote));
        let remote = *remote.unwrap_or(&self.remotes[0]);
        let heard = all.heard.get(&self.remotes[0]);
        let local = heard.and_then(|via| via.local).filter(|_| sockets.is_wildcard(at as u16));
        Via { socket: at as u16, local, remote }
    }

    fn note_heard(&mut self, via: &Via, now: Instant) {
        if let Some(path) = self.paths.get_mut(usize::from(via.socket))
            && self.remotes.get(path.remote) == Some(&via.remote)
        {
            path.heard_at = now;
            path.unheard_since = None;
        }
    }

    /// Leaves paths that bring nothing back, if another one did in the meantime.
    fn leave_silent_paths(&mut self, now: Instant) {
        let Some(heard_at) = self.paths.iter().filter(|p| p.is_up).map(|p| p.heard_at).max() else {
            return;
        };
        for path in &mut self.paths {
            let is_silent = path
                .unheard_since
                .is_some_and(|since| now >= since.saturating_add(UNHEARD_MAX) && heard_at > since);
            if path.is_up && is_silent {
                path.fail(now);
            }
        }
    }

    fn accept_offer(
        &mut self,
        token: Token,
        seen: SocketAddr,
        more: &[SocketAddr],
        nics: usize,
        now: Instant,
    ) {
        self.token = Some((token, seen));
        let main = self.remotes[0];
        self.remotes.truncate(1);
        let is_usable = |a: &&SocketAddr| {
            **a != main
                && a.is_ipv4() == main.is_ipv4()
                && !a.ip().is_unspecified()
                && !a.ip().is_multicast()
        };
        self.remotes.extend(more.iter().filter(is_usable));
        // NICs take the peer's addresses in turn, such that the primary path keeps the main one.
        let first = self.primary % nics;
        for (at, path) in self.paths.iter_mut().enumerate() {
            if !path.is_up {
                let nic = (at % nics + nics - first) % nics;
                path.remote = nic % self.remotes.len();
                (path.try_at, path.tries) = (now, 0);
            }
        }
    }
}

fn secs(now: Instant) -> u64 {
    now.since_start().as_nanos() / 1_000_000_000
}

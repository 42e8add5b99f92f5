//! Who listens here, for which services, and with how much memory.
//!
//! A message names a service. Its messages wait in the backlog of whoever has claimed the service.
//! In a process of its own, an endpoint has one *owner*, itself, with no limit but those of the
//! endpoint. In a host daemon each client is an owner with limits of its own, so that a client that
//! does not read cannot take the memory of the others: its messages beyond the limits are *held*.
//! Their senders wait until there is room.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

/// A service of a host: messages to it reach the process that listens for it.
///
/// ```
/// use punctual_host::Service;
/// assert_eq!(Service::default(), Service::number(0));
/// assert_ne!(Service::named("search"), Service::named("storage"));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Service(u32);

impl Service {
    /// The service of this number. Number 0 is the default one. Numbers from 2³¹ on may collide with
    /// those of names.
    pub const fn number(number: u32) -> Self {
        Service(number)
    }

    /// The service of this name: its number is a hash of the name, from 2³¹ on.
    pub fn named(name: &str) -> Self {
        let hash = blake3::hash(name.as_bytes());
        let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        Service(u32::from_be_bytes(first) | 1 << 31)
    }

    /// Its number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "service {}", self.0)
    }
}

/// On whose behalf the engine sends and receives. 0 is the process itself.
pub(crate) type Owner = u64;

/// The most that one owner may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerLimits {
    /// Memory of messages that it receives or has not released.
    pub(crate) memory: usize,
    /// Messages that it receives or has not released.
    pub(crate) messages: usize,
}

impl OwnerLimits {
    const NONE: OwnerLimits = OwnerLimits { memory: usize::MAX, messages: usize::MAX };
}

/// Most messages of one owner that wait for its own limits. Further ones are refused.
pub(super) const HELD_MAX: usize = 256;

/// A claimed service.
#[derive(Debug)]
struct Claim {
    owner: Owner,
    /// Messages that wait for `accept`.
    backlog: VecDeque<u64>,
    waker: Option<Waker>,
}

/// What an owner has.
#[derive(Debug)]
struct Account {
    limits: OwnerLimits,
    memory: usize,
    messages: usize,
    /// Messages that wait until the owner has room, oldest first.
    held: VecDeque<u64>,
}

/// Claimed services and their owners.
#[derive(Debug)]
pub(super) struct Services {
    claims: HashMap<Service, Claim>,
    accounts: HashMap<Owner, Account>,
    /// Messages in all backlogs.
    waiting: usize,
    /// Held messages of all owners.
    held: usize,
    /// On whose behalf the next send is submitted.
    pub(super) acting: Owner,
}

impl Services {
    pub(super) fn new() -> Self {
        let mut services = Services {
            claims: HashMap::new(),
            accounts: HashMap::new(),
            waiting: 0,
            held: 0,
            acting: 0,
        };
        services.add_owner(0, OwnerLimits::NONE);
        services
    }

    pub(super) fn add_owner(&mut self, owner: Owner, limits: OwnerLimits) {
        let account = Account { limits, memory: 0, messages: 0, held: VecDeque::new() };
        self.accounts.insert(owner, account);
    }

    /// Claims a service for an owner. False if another owner has it.
    pub(super) fn claim(&mut self, service: Service, owner: Owner) -> bool {
        let claim = self.claims.entry(service).or_insert_with(|| Claim {
            owner,
            backlog: VecDeque::new(),
            waker: None,
        });
        claim.owner == owner
    }

    /// Releases the services of an owner. Returns the messages in their backlogs.
    pub(super) fn release_claims(&mut self, owner: Owner) -> Vec<u64> {
        let mut waiting = Vec::new();
        self.claims.retain(|_, claim| {
            if claim.owner == owner {
                waiting.extend(claim.backlog.drain(..));
            }
            claim.owner != owner
        });
        self.waiting -= waiting.len();
        waiting
    }

    /// Removes an owner. Its claims, messages and sends are gone already.
    pub(super) fn remove_owner(&mut self, owner: Owner) {
        if let Some(account) = self.accounts.remove(&owner) {
            self.held -= account.held.len();
        }
    }

    pub(super) fn owner_of(&self, service: Service) -> Option<Owner> {
        self.claims.get(&service).map(|claim| claim.owner)
    }

    /// Whether anybody listens.
    pub(super) fn is_listening(&self) -> bool {
        !self.claims.is_empty()
    }

    pub(super) fn claimed(&self) -> usize {
        self.claims.len()
    }

    /// Messages that wait for `accept`.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Messages that wait until their owner has room.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Memory that an owner has taken.
    pub(super) fn memory_of(&self, owner: Owner) -> usize {
        self.accounts.get(&owner).map_or(0, |account| account.memory)
    }

    /// Messages that an owner has.
    pub(super) fn messages_of(&self, owner: Owner) -> usize {
        self.accounts.get(&owner).map_or(0, |account| account.messages)
    }

    /// Takes room for a new message of an owner. False if its limits do not allow it.
    pub(super) fn take_room(&mut self, owner: Owner, memory: usize) -> bool {
        let Some(account) = self.accounts.get_mut(&owner) else { return false };
        let Some(total) = account.memory.checked_add(memory) else { return false };
        // A message larger than the limit of an idle owner would wait for ever.
        let fits = total <= account.limits.memory || account.messages == 0;
        if !fits || account.messages >= account.limits.messages {
            return false;
        }
        account.memory = total;
        account.messages += 1;
        true
    }

    /// Returns the room of a message.
    pub(super) fn return_room(&mut self, owner: Owner, memory: usize) {
        if let Some(account) = self.accounts.get_mut(&owner) {
            account.memory -= memory;
            account.messages -= 1;
        }
    }

    /// Holds a message of an owner. False if it has too many of them.
    pub(super) fn hold(&mut self, owner: Owner, id: u64) -> bool {
        let Some(account) = self.accounts.get_mut(&owner) else { return false };
        let fits = account.held.len() < HELD_MAX;
        if fits {
            account.held.push_back(id);
            self.held += 1;
        }
        fits
    }

    /// Forgets a held message.
    pub(super) fn unhold(&mut self, owner: Owner, id: u64) {
        let Some(account) = self.accounts.get_mut(&owner) else { return };
        let before = account.held.len();
        account.held.retain(|held| *held != id);
        self.held -= before - account.held.len();
    }

    /// The oldest held message of each owner.
    pub(super) fn oldest_held(&self) -> Vec<u64> {
        self.accounts.values().filter_map(|account| account.held.front().copied()).collect()
    }

    /// Adds a message to the backlog of its service.
    pub(super) fn push(&mut self, service: Service, id: u64) {
        if let Some(claim) = self.claims.get_mut(&service) {
            claim.backlog.push_back(id);
            self.waiting += 1;
            if let Some(waker) = claim.waker.take() {
                waker.wake();
            }
        }
    }

    /// Takes the oldest message from the backlog of a service.
    pub(super) fn pop(&mut self, service: Service) -> Option<u64> {
        let id = self.claims.get_mut(&service)?.backlog.pop_front()?;
        self.waiting -= 1;
        Some(id)
    }

    /// Removes a message from the backlog of its service.
    pub(super) fn remove(&mut self, service: Service, id: u64) {
        if let Some(claim) = self.claims.get_mut(&service) {
            let before = claim.backlog.len();
            claim.backlog.retain(|waiting| *waiting != id);
            self.waiting -= before - claim.backlog.len();
        }
    }

    /// Has a waker called when a message of the service arrives.
    pub(super) fn watch(&mut self, service: Service, waker: &Waker) {
        if let Some(claim) = self.claims.get_mut(&service) {
            claim.waker = Some(waker.clone());
        }
    }

    pub(super) fn wake_all(&mut self) {
        for waker in self.claims.values_mut().filter_map(|claim| claim.waker.take()) {
            waker.wake();
        }
    }
}

#[cfg(test)]
#[allow(non_snake_case)]
mod tests {
    use super::*;

    #[test]
    fn claims__one_owner_each_and_released_together() {
        let mut services = Services::new();
        let [one, two] = [1, 2].map(Service::number);
        assert!(!services.is_listening());
        assert!(services.claim(one, 7) && services.claim(two, 7) && services.claim(one, 7));
        assert!(!services.claim(one, 8), "taken");
        services.push(one, 100);
        services.push(two, 101);
        assert_eq!((services.waiting(), services.pop(one)), (2, Some(100)));
        assert_eq!(services.release_claims(7), [101]);
        assert_eq!(services.waiting(), 0);
        assert!(services.claim(one, 8));
    }

    #[test]
    fn limits__of_one_owner_leave_the_others_alone() {
        let mut services = Services::new();
        for owner in [1, 2] {
            services.add_owner(owner, OwnerLimits { memory: 100, messages: 3 });
        }
        assert!(services.take_room(1, 60));
        assert!(!services.take_room(1, 60), "memory");
        assert!(services.take_room(1, 10) && services.take_room(1, 10));
        assert!(!services.take_room(1, 1), "messages");
        assert!(services.take_room(2, 100), "another owner");
        assert!(services.take_room(0, usize::MAX / 2), "the process itself has no limit");
        services.return_room(1, 60);
        assert!(services.take_room(1, 60));
        assert!((0..HELD_MAX as u64).all(|id| services.hold(1, id)));
        assert!(!services.hold(1, 1_000));
        services.unhold(1, 0);
        assert_eq!((services.oldest_held(), services.held()), (vec![1], HELD_MAX - 1));
        services.remove_owner(1);
        assert_eq!(services.held(), 0);
    }

    #[test]
    fn names__have_numbers_of_their_own() {
        assert!(Service::named("search").get() >= 1 << 31);
        assert_eq!(Service::named("search"), Service::named("search"));
    }
}

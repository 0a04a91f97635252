(* Neighbours suffice: what a list loses in DCG is at most a sum over its neighbours in the wrong order. *)
From Perceptrank Require Export Sums.

(* s maps the places 0, ..., m - 1 one to one to themselves. *)
Definition permutes (m : nat) (s : nat -> nat) : Prop :=
  (forall p, (p < m)%nat -> (s p < m)%nat)
  /\ (forall p p', (p < m)%nat -> (p' < m)%nat -> s p = s p' -> p = p').

Lemma nodup_images (s : nat -> nat) l : NoDup l ->
  (forall p p', In p l -> In p' l -> s p = s p' -> p = p') -> NoDup (map s l).
Proof.
  induction 1 as [|a l N D IH]; intro H; simpl; constructor.
  - intro I. apply in_map_iff in I as (b & E & B). apply N. replace a with b; [easy|].
    apply H; simpl; auto.
  - apply IH. intros; apply H; simpl; auto.
Qed.

(* p + 1 different places cannot all lie before place p. *)
Lemma one_reaches m s p : permutes m s -> (p < m)%nat -> exists p', (p' <= p)%nat /\ (p <= s p')%nat.
Proof.
  intros (B & I) P.
  destruct (Exists_dec (fun p' => (p <= s p')%nat) (seq 0 (S p))) as [E|N]; [intro; apply le_dec| |].
  - apply Exists_exists in E as (p' & In' & Le). apply in_seq in In'. exists p'. lia.
  - exfalso. assert (ND : NoDup (map s (seq 0 (S p)))).
    { apply nodup_images; [apply seq_NoDup|]. intros a b A B'. apply in_seq in A, B'. apply I; lia. }
    assert (Incl : incl (map s (seq 0 (S p))) (seq 0 p)).
    { intros y Y. apply in_map_iff in Y as (x & <- & X). apply in_seq.
      destruct (le_dec p (s x)) as [Le|]; [|lia]. exfalso. apply N, Exists_exists. now exists x. }
    pose proof (NoDup_incl_length ND Incl) as L. rewrite map_length, !seq_length in L. lia.
Qed.

(* Places are counted from 0; discounts are 0 from the cut-off on. *)
Definition dcg (m : nat) (discount a : nat -> R) : R := sum m (fun p => discount p * a p).
Definition rise (a : nat -> R) (q : nat) : R := Rmax 0 (a (S q) - a q).

Lemma climbs a p n : a (p + n)%nat <= a p + sum n (fun r => rise a (p + r)).
Proof.
  induction n; simpl sum; [rewrite Nat.add_0_r; lra|].
  rewrite Nat.add_succ_r. unfold rise at 2. pose proof (Rmax_r 0 (a (S (p + n)) - a (p + n)%nat)). lra.
Qed.

Lemma rise_nonneg a q : 0 <= rise a q.
Proof. apply Rmax_l. Qed.

(* The value in place p of the sorted list is at most a p and all rises from p on. *)
Lemma sorted_value m a s p : permutes m s -> (p < m)%nat ->
  (forall i j, (i <= j)%nat -> (j < m)%nat -> a (s j) <= a (s i)) ->
  a (s p) <= a p + sum (m - 1) (fun q => if p <=? q then rise a q else 0).
Proof.
  intros Perm P Sorted. destruct (one_reaches m s p Perm P) as (p' & L1 & L2).
  eapply Rle_trans; [apply (Sorted p' p L1 P)|].
  assert (B : (s p' < m)%nat) by (apply Perm; lia).
  replace (s p') with (p + (s p' - p))%nat by lia.
  eapply Rle_trans; [apply climbs|]. apply Rplus_le_compat_l.
  replace (m - 1)%nat with (p + ((s p' - p) + (m - 1 - s p')))%nat by lia.
  rewrite !sum_app.
  assert (0 <= sum p (fun q => if p <=? q then rise a q else 0))
    by (apply sum_nonneg; intros; destruct (_ <=? _); [apply rise_nonneg|lra]).
  assert (0 <= sum (m - 1 - s p') (fun i => if p <=? p + (s p' - p + i) then rise a (p + (s p' - p + i)) else 0))
    by (apply sum_nonneg; intros; destruct (_ <=? _); [apply rise_nonneg|lra]).
  replace (sum (s p' - p) (fun i => if p <=? p + i then rise a (p + i) else 0))
    with (sum (s p' - p) (fun r => rise a (p + r))); [lra|].
  apply sum_ext; intros. destruct (Nat.leb_spec p (p + i)); [easy|lia].
Qed.

(* s sorts the relevances a, best first; B_q is the sum of the discounts of places 0, ..., q. *)
Theorem neighbours_suffice m discount a s : permutes m s ->
  (forall i j, (i <= j)%nat -> (j < m)%nat -> a (s j) <= a (s i)) ->
  (forall p, (p < m)%nat -> 0 <= discount p) ->
  dcg m discount (fun p => a (s p)) - dcg m discount a <= sum (m - 1) (fun q => sum (S q) discount * rise a q).
Proof.
  intros Perm Sorted D. unfold dcg. rewrite <- sum_minus.
  apply Rle_trans with (sum m (fun p => sum (m - 1) (fun q => if p <=? q then discount p * rise a q else 0))).
  - apply sum_le; intros p P. pose proof (sorted_value m a s p Perm P Sorted) as H. specialize (D p P).
    rewrite (sum_ext (m - 1) _ (fun q => discount p * (if p <=? q then rise a q else 0)))
      by (intros; destruct (_ <=? _); lra).
    rewrite sum_scal. nra.
  - rewrite sum_swap. apply sum_le; intros q Q. apply Req_le.
    replace m with (S q + (m - S q))%nat at 1 by lia. rewrite sum_app.
    rewrite (sum_ext (m - S q) _ (fun _ => 0)), sum_zero.
    + rewrite (sum_ext (S q) _ (fun p => rise a q * discount p)).
      * rewrite sum_scal. lra.
      * intros p P. destruct (Nat.leb_spec p q); [lra|lia].
    + intros i _. destruct (Nat.leb_spec (S q + i) q); [lia|easy].
Qed.

(* With a cut-off k, B_q is the sum of the discounts of the first min(q, k) places. *)
Definition cut (k : nat) (discount : nat -> R) (p : nat) : R := if p <? k then discount p else 0.

Lemma sum_cut k discount n : sum n (cut k discount) = sum (min n k) discount.
Proof.
  induction n; [easy|]. simpl sum at 1. rewrite IHn. unfold cut. destruct (Nat.ltb_spec n k).
  - rewrite !Nat.min_l by lia. simpl. lra.
  - rewrite !Nat.min_r by lia. lra.
Qed.

Theorem neighbours_suffice_at_k m k discount a s : permutes m s ->
  (forall i j, (i <= j)%nat -> (j < m)%nat -> a (s j) <= a (s i)) ->
  (forall p, (p < m)%nat -> 0 <= discount p) ->
  dcg m (cut k discount) (fun p => a (s p)) - dcg m (cut k discount) a
    <= sum (m - 1) (fun q => sum (min (S q) k) discount * rise a q).
Proof.
  intros Perm Sorted D. eapply Rle_trans; [apply (neighbours_suffice m (cut k discount) a s Perm Sorted)|].
  - intros p P. unfold cut. destruct (_ <? _); [auto|lra].
  - apply Req_le, sum_ext; intros q _. now rewrite sum_cut.
Qed.

(* Lemmas 1 and 1' of docs/theory.md: what a ranking loses is at most the weight of its outranked documents. *)
From Perceptrank Require Export Neighbours.
Require Import Bool.

(* Sums over lists *)
Definition lsum (f : nat -> R) (l : list nat) : R := fold_right (fun x s => f x + s) 0 l.

Lemma lsum_app f l l' : lsum f (l ++ l') = lsum f l + lsum f l'.
Proof. induction l; simpl; lra. Qed.

Lemma lsum_map f (s : nat -> nat) l : lsum f (map s l) = lsum (fun x => f (s x)) l.
Proof. induction l; simpl; [easy|]. now rewrite IHl. Qed.

Lemma lsum_const c l : lsum (fun _ => c) l = INR (length l) * c.
Proof. induction l; simpl lsum; [simpl; lra|]. simpl length. rewrite S_INR. lra. Qed.

Lemma lsum_scal c f l : lsum (fun x => c * f x) l = c * lsum f l.
Proof. induction l; simpl; lra. Qed.

Lemma lsum_ext f g l : (forall x, In x l -> f x = g x) -> lsum f l = lsum g l.
Proof. induction l; intro H; simpl; [easy|]. rewrite H, IHl; simpl; auto. intros; apply H; simpl; auto. Qed.

Lemma sum_filter m (b : nat -> bool) f : sum m (fun i => if b i then f i else 0) = lsum f (filter b (seq 0 m)).
Proof.
  induction m; [easy|]. rewrite seq_S, filter_app, lsum_app, <- IHm. simpl. destruct (b m); simpl; lra.
Qed.

Lemma sum_classes m G (grade : nat -> nat) f : (forall i, (i < m)%nat -> (grade i < G)%nat) ->
  sum m f = sum G (fun g => sum m (fun i => if grade i =? g then f i else 0)).
Proof.
  intro H. rewrite <- sum_swap. apply sum_ext; intros i HI.
  rewrite (sum_only G _ (grade i)); [now rewrite Nat.eqb_refl| |auto].
  intros g _ N. destruct (Nat.eqb_spec (grade i) g); [congruence|easy].
Qed.

Lemma list_max_in (l : list nat) : l <> nil -> exists x, In x l /\ forall y, In y l -> (y <= x)%nat.
Proof.
  induction l as [|a l IH]; [easy|]; intros _. destruct l as [|b l].
  - exists a. simpl. split; [auto|]. intros y [->|[]]. lia.
  - destruct IH as (x & I & M); [easy|]. destruct (le_dec x a).
    + exists a. split; [now left|]. intros y [->|Y]; [lia|]. specialize (M y Y). lia.
    + exists x. split; [now right|]. intros y [->|Y]; [lia|auto].
Qed.

Section Places.
Variable discount : nat -> R.
Hypothesis falling : forall p p', (p <= p')%nat -> discount p' <= discount p.

(* Different places from n on have at most the discounts of the first such places. *)
Lemma first_places_are_best n b : forall l, length l = b -> NoDup l -> (forall x, In x l -> (n <= x)%nat) ->
  lsum discount l <= sum b (fun a => discount (n + a)%nat).
Proof.
  induction b; intros l Len ND Ge; [destruct l; [simpl; lra|easy]|].
  destruct (list_max_in l) as (x & I & M); [now destruct l|].
  apply in_split in I as (l1 & l2 & ->). apply NoDup_remove in ND as (ND & NI).
  rewrite app_length in Len; simpl in Len.
  specialize (IHb (l1 ++ l2)). rewrite app_length in IHb. rewrite lsum_app in *. simpl.
  assert (In' : forall y, In y (l1 ++ l2) -> In y (l1 ++ x :: l2))
    by (intros y Y; apply in_app_iff in Y; apply in_app_iff; simpl; tauto).
  assert (n + b <= x)%nat.
  { assert (L : (length (x :: l1 ++ l2) <= length (seq n (S x - n)))%nat).
    { apply NoDup_incl_length; [now constructor|]. intros y Y. apply in_seq.
      assert (In y (l1 ++ x :: l2)) by (destruct Y as [<-|Y]; [apply in_app_iff; simpl; tauto|auto]).
      specialize (Ge y H). specialize (M y H). lia. }
    cbn [length] in L. rewrite app_length, seq_length in L.
    assert (n <= x)%nat by (apply Ge, in_app_iff; simpl; auto). lia. }
  specialize (falling (n + b)%nat x H).
  assert (lsum discount l1 + lsum discount l2 <= sum b (fun a => discount (n + a)%nat)) by (apply IHb; [lia|easy|auto]).
  lra.
Qed.

(* If number a of some places is n + a at most, they have at least the discounts of n, n + 1, ... *)
Lemma early_places n b : forall l, length l = b -> NoDup l ->
  (forall x, In x l -> (x <= n + length (filter (fun y => y <? x) l))%nat) ->
  sum b (fun a => discount (n + a)%nat) <= lsum discount l.
Proof.
  induction b; intros l Len ND Le; [destruct l; [simpl; lra|easy]|].
  destruct (list_max_in l) as (x & I & M); [now destruct l|].
  pose proof (Le x I) as LX.
  apply in_split in I as (l1 & l2 & ->). apply NoDup_remove in ND as (ND & NI).
  rewrite app_length in Len; simpl in Len.
  assert (F : forall y, (y <= x)%nat -> filter (fun z => z <? y) (l1 ++ x :: l2) = filter (fun z => z <? y) (l1 ++ l2)).
  { intros y Y. rewrite !filter_app. simpl. destruct (Nat.ltb_spec x y); [lia|easy]. }
  rewrite F in LX by lia.
  assert (Shorter : forall (f : nat -> bool) l, (length (filter f l) <= length l)%nat).
  { induction l as [|z l IH]; simpl; [lia|]. destruct (f z); simpl; lia. }
  pose proof (Shorter (fun y => y <? x) (l1 ++ l2)) as LF. rewrite app_length in LF.
  specialize (falling x (n + b)%nat ltac:(lia)).
  assert (sum b (fun a => discount (n + a)%nat) <= lsum discount (l1 ++ l2)).
  { apply IHb; [rewrite app_length; lia|easy|]. intros y Y.
    assert (Y' : In y (l1 ++ x :: l2)) by (apply in_app_iff in Y; apply in_app_iff; simpl; tauto).
    specialize (Le y Y'). rewrite F in Le; auto. }
  rewrite lsum_app in *. simpl. lra.
Qed.

(* The mean of the first b discounts is at least that of the first n. *)
Lemma mean_falls n b : (b <= n)%nat -> forall o,
  INR b * sum n (fun a => discount (o + a)%nat) <= INR n * sum b (fun a => discount (o + a)%nat).
Proof.
  intros L o. induction L as [|n L IH]; [lra|]. simpl sum. rewrite S_INR.
  assert (INR b * discount (o + n)%nat <= sum b (fun a => discount (o + a)%nat)); [|lra].
  rewrite <- sum_const. apply sum_le; intros i HI. apply falling; lia.
Qed.
End Places.

Section Query.
Variables (m : nat) (grade rank : nat -> nat).
Hypothesis ranking : permutes m rank.

(* Some lower-graded document is ranked above i. *)
Definition outranked (i : nat) : bool :=
  existsb (fun j => (grade j <? grade i) && (rank j <? rank i)) (seq 0 m).

Lemma outranked_spec i : outranked i = true <->
  exists j, (j < m)%nat /\ (grade j < grade i)%nat /\ (rank j < rank i)%nat.
Proof.
  unfold outranked. rewrite existsb_exists. split.
  - intros (j & I & H). apply in_seq in I. apply andb_true_iff in H as (A & B).
    apply Nat.ltb_lt in A, B. exists j. lia.
  - intros (j & J & A & B). exists j. rewrite in_seq, andb_true_iff, !Nat.ltb_lt. lia.
Qed.

(* An order of the documents by grade, best first. *)
Definition by_grade (p : nat -> nat) : Prop :=
  permutes m p /\ forall i j, (i < m)%nat -> (j < m)%nat -> (grade j < grade i)%nat -> (p i < p j)%nat.

Definition above (g : nat) : list nat := filter (fun j => g <? grade j) (seq 0 m).
Definition class (g : nat) : list nat := filter (fun j => grade j =? g) (seq 0 m).

Lemma in_class g i : In i (class g) <-> (i < m)%nat /\ grade i = g.
Proof. unfold class. rewrite filter_In, in_seq, Nat.eqb_eq. lia. Qed.

Lemma in_above g i : In i (above g) <-> (i < m)%nat /\ (g < grade i)%nat.
Proof. unfold above. rewrite filter_In, in_seq, Nat.ltb_lt. lia. Qed.

Lemma place_after_above p i : by_grade p -> (i < m)%nat -> (length (above (grade i)) <= p i)%nat.
Proof.
  intros (P & S) HI. rewrite <- (map_length p), <- (seq_length (p i) 0). apply NoDup_incl_length.
  - apply nodup_images; [apply NoDup_filter, seq_NoDup|].
    intros a b A B. apply in_above in A, B. now apply P.
  - intros y Y. apply in_map_iff in Y as (j & <- & J). apply in_above in J. apply in_seq.
    specialize (S j i). lia.
Qed.

Lemma every_place_is_taken y : (y < m)%nat -> exists j, (j < m)%nat /\ rank j = y.
Proof.
  intro Y. destruct ranking as (B & I).
  assert (Inc : incl (seq 0 m) (map rank (seq 0 m))).
  { apply NoDup_length_incl.
    - apply nodup_images; [apply seq_NoDup|]. intros a b A B'. apply in_seq in A, B'. apply I; lia.
    - now rewrite map_length.
    - intros x X. apply in_map_iff in X as (j & <- & J). apply in_seq in J. apply in_seq. specialize (B j). lia. }
  specialize (Inc y). rewrite in_seq, in_map_iff in Inc. destruct Inc as (j & E & J); [lia|].
  apply in_seq in J. exists j. lia.
Qed.

Section Gains.
Variables (gain discount : nat -> R).
Hypothesis gain_nonneg : forall g, 0 <= gain g.
Hypothesis falling : forall p p', (p <= p')%nat -> discount p' <= discount p.

Definition dcg_of (p : nat -> nat) : R := sum m (fun i => gain (grade i) * discount (p i)).

(* What some documents of a grade get together is at most what the first places of that grade have. *)
Definition lays_places (share : nat -> R) : Prop := forall g l, NoDup l ->
  (forall i, In i l -> (i < m)%nat /\ grade i = g) ->
  lsum share l <= sum (length l) (fun a => discount (length (above g) + a)%nat).

(* Places by score, by index, or in any other order inside a grade *)
Lemma order_lays_places p : by_grade p -> lays_places (fun i => discount (p i)).
Proof.
  intros S g l ND In'. rewrite <- lsum_map, <- (map_length p l). apply first_places_are_best; auto.
  - apply nodup_images; [easy|]. intros a b A B. apply In' in A, B. now apply S.
  - intros x X. apply in_map_iff in X as (i & <- & I). apply In' in I as (HI & <-). now apply place_after_above.
Qed.

(* Places that are shared equally inside a grade *)
Definition shared (p : nat -> nat) (i : nat) : R :=
  lsum (fun j => discount (p j)) (class (grade i)) / INR (length (class (grade i))).

Lemma shared_lays_places p : by_grade p -> lays_places (shared p).
Proof.
  intros S g l ND In'.
  rewrite (lsum_ext _ (fun _ => lsum (fun j => discount (p j)) (class g) / INR (length (class g))))
    by (intros i I; apply In' in I as (_ & <-); easy).
  rewrite lsum_const. destruct l as [|i l]; [simpl; lra|]. set (k := i :: l) in *.
  assert (L : (length k <= length (class g))%nat).
  { apply NoDup_incl_length; [easy|]. intros j J. apply in_class. auto. }
  assert (P : 0 < INR (length (class g))) by (apply lt_0_INR; unfold k in L; simpl in L; lia).
  pose proof (mean_falls discount falling _ _ L (length (above g))) as Mean.
  assert (C : lsum (fun j => discount (p j)) (class g) <=
    sum (length (class g)) (fun a => discount (length (above g) + a)%nat)).
  { apply (order_lays_places p S); [apply NoDup_filter, seq_NoDup|]. apply in_class. }
  pose proof (pos_INR (length k)) as K0.
  apply Rmult_le_reg_l with (INR (length (class g))); [easy|].
  replace (INR (length (class g)) * (INR (length k) * (lsum (fun j => discount (p j)) (class g) / INR (length (class g)))))
    with (INR (length k) * lsum (fun j => discount (p j)) (class g)) by (field; lra).
  eapply Rle_trans; [apply Rmult_le_compat_l; [easy|exact C]|exact Mean].
Qed.

Lemma shared_sums_alike p : sum m (fun i => gain (grade i) * shared p i) = dcg_of p.
Proof.
  unfold dcg_of.
  assert (B : exists G, forall i, (i < m)%nat -> (grade i < G)%nat).
  { clear. induction m as [|n (G & H)]; [exists O; lia|]. exists (S (max G (grade n))).
    intros i I. destruct (Nat.eq_dec i n) as [->|]; [lia|]. specialize (H i). lia. }
  destruct B as (G & HG). rewrite !(sum_classes m G grade _ HG). apply sum_ext; intros g _.
  rewrite !(sum_filter m (fun i => grade i =? g)). fold (class g).
  rewrite (lsum_ext (fun i => gain (grade i) * shared p i)
    (fun _ => gain g * (lsum (fun j => discount (p j)) (class g) / INR (length (class g)))))
    by (intros i I; apply in_class in I as (_ & <-); easy).
  rewrite (lsum_ext (fun i => gain (grade i) * discount (p i)) (fun i => gain g * discount (p i)))
    by (intros i I; apply in_class in I as (_ & <-); easy).
  rewrite lsum_const, lsum_scal. destruct (class g) as [|i l]; [simpl; lra|].
  field. apply not_0_INR. simpl; lia.
Qed.

(* Documents that are not outranked, grade by grade *)
Definition kept (g : nat) : list nat := filter (fun i => (grade i =? g) && negb (outranked i)) (seq 0 m).

Lemma in_kept g i : In i (kept g) <-> (i < m)%nat /\ grade i = g /\ outranked i = false.
Proof. unfold kept. rewrite filter_In, in_seq, andb_true_iff, Nat.eqb_eq, negb_true_iff. intuition lia. Qed.

Lemma kept_stand_early g i : In i (kept g) ->
  (rank i <= length (above g) + length (filter (fun y => y <? rank i) (map rank (kept g))))%nat.
Proof.
  intro I. apply in_kept in I as (HI & <- & NB).
  assert (No : forall j, (j < m)%nat -> (rank j < rank i)%nat -> (grade i <= grade j)%nat).
  { intros j J Rj. destruct (le_lt_dec (grade i) (grade j)) as [|Lt]; [easy|exfalso].
    assert (outranked i = true) by (apply outranked_spec; now exists j). congruence. }
  rewrite <- (map_length rank (above _)), <- app_length, <- (seq_length (rank i) 0) at 1.
  apply NoDup_incl_length; [apply seq_NoDup|]. intros y Y. apply in_seq in Y.
  destruct (every_place_is_taken y) as (j & J & <-); [destruct ranking as (B & _); specialize (B i HI); lia|].
  assert (Rj : (rank j < rank i)%nat) by lia. pose proof (No j J Rj) as Le.
  apply in_app_iff. destruct (Nat.eq_dec (grade j) (grade i)) as [E|N]; [right|left].
  - apply filter_In. split; [|now apply Nat.ltb_lt]. apply in_map, in_kept. repeat split; auto.
    destruct (outranked j) eqn:O; [exfalso|easy]. apply outranked_spec in O as (x & X & Gx & Rx).
    specialize (No x X). lia.
  - apply in_map, in_above. lia.
Qed.

Lemma kept_are_paid share : lays_places share ->
  sum m (fun i => if outranked i then 0 else gain (grade i) * share i)
    <= sum m (fun i => if outranked i then 0 else gain (grade i) * discount (rank i)).
Proof.
  intro Lay.
  assert (B : exists G, forall i, (i < m)%nat -> (grade i < G)%nat).
  { clear. induction m as [|n (G & H)]; [exists O; lia|]. exists (S (max G (grade n))).
    intros i I. destruct (Nat.eq_dec i n) as [->|]; [lia|]. specialize (H i). lia. }
  destruct B as (G & HG). rewrite !(sum_classes m G grade _ HG). apply sum_le; intros g _.
  assert (E : forall f : nat -> R,
    sum m (fun i => if grade i =? g then if outranked i then 0 else gain (grade i) * f i else 0) = gain g * lsum f (kept g)).
  { intro f. rewrite <- lsum_scal.
    rewrite (lsum_ext _ (fun i => gain (grade i) * f i)) by (intros i I; apply in_kept in I as (_ & <- & _); easy).
    unfold kept. rewrite <- sum_filter. apply sum_ext; intros i _. destruct (grade i =? g), (outranked i); easy. }
  rewrite (E share), (E (fun i => discount (rank i))). apply Rmult_le_compat_l; [apply gain_nonneg|].
  assert (ND : NoDup (kept g)) by apply NoDup_filter, seq_NoDup.
  eapply Rle_trans; [apply (Lay g); [easy|intros i I; apply in_kept in I; tauto]|].
  rewrite <- (lsum_map discount rank). apply early_places; auto.
  - now rewrite map_length.
  - apply nodup_images; [easy|]. intros a b A B. apply in_kept in A, B. apply ranking; tauto.
  - intros x X. apply in_map_iff in X as (i & <- & I). now apply kept_stand_early.
Qed.

Lemma share_at_most share i : lays_places share -> (i < m)%nat -> share i <= discount 0%nat.
Proof.
  intros Lay HI. specialize (Lay (grade i) (i :: nil)). simpl in Lay.
  assert (share i + 0 <= 0 + discount (length (above (grade i)) + 0)%nat).
  { apply Lay; [repeat constructor; auto|]. intros j [<-|[]]. easy. }
  pose proof (falling 0%nat (length (above (grade i)) + 0)%nat ltac:(lia)). lra.
Qed.

(* Lemmas 1 and 1' for gains and discounts of any kind: `least` is 0, or at most every discount. *)
Theorem lemma_1_dcg share least : lays_places share -> discount 0%nat <= 1 ->
  0 <= least -> (forall p, (p < m)%nat -> least <= discount p) ->
  sum m (fun i => gain (grade i) * share i) - dcg_of rank
    <= (1 - least) * sum m (fun i => if outranked i then gain (grade i) * share i else 0).
Proof.
  intros Lay D0 L0 L. pose proof (kept_are_paid share Lay) as K.
  assert (B : least * sum m (fun i => if outranked i then gain (grade i) * share i else 0)
    <= sum m (fun i => if outranked i then gain (grade i) * discount (rank i) else 0)).
  { rewrite <- sum_scal. apply sum_le; intros i HI. destruct (outranked i); [|lra].
    pose proof (gain_nonneg (grade i)) as G0. pose proof (share_at_most share i Lay HI).
    destruct ranking as (Rk & _). specialize (L (rank i) (Rk i HI)).
    replace (least * (gain (grade i) * share i)) with (gain (grade i) * (least * share i)) by ring.
    apply Rmult_le_compat_l; nra. }
  assert (S : forall f, sum m f = sum m (fun i => if outranked i then f i else 0) + sum m (fun i => if outranked i then 0 else f i)).
  { intro f. rewrite <- sum_plus. apply sum_ext; intros i _. destruct (outranked i); lra. }
  unfold dcg_of. rewrite (S (fun i => gain (grade i) * share i)), (S (fun i => gain (grade i) * discount (rank i))). lra.
Qed.
End Gains.
End Query.

(* NDCG, NDCG@k and AP, and Lemmas 1 and 1' for them. *)
From Perceptrank Require Export Loss.
Require Import Bool.

(* G(r) = 2^r - 1, and D(p) = 1 / log2(1 + p) for places p that count from 1: here from 0. *)
Definition gain (r : nat) : R := 2 ^ r - 1.
Definition log_discount (p : nat) : R := ln 2 / ln (INR p + 2).

Definition dcg_at (k m : nat) (grade rank : nat -> nat) : R := dcg_of m grade gain (cut k log_discount) rank.
Definition ndcg_at (k m : nat) (grade ideal rank : nat -> nat) : R := dcg_at k m grade rank / dcg_at k m grade ideal.

(* The weights v, with the places of an ideal order, or shared equally inside each grade *)
Definition ndcg_weight (k m : nat) (grade ideal : nat -> nat) (i : nat) : R :=
  gain (grade i) * cut k log_discount (ideal i) / dcg_at k m grade ideal.
Definition ndcg_shared_weight (k m : nat) (grade ideal : nat -> nat) (i : nat) : R :=
  gain (grade i) * shared m grade (cut k log_discount) ideal i / dcg_at k m grade ideal.

Definition ndcg_weights (k m : nat) (grade : nat -> nat) (v : nat -> R) : Prop :=
  exists order, by_grade m grade order /\
  ((forall i, (i < m)%nat -> v i = ndcg_weight k m grade order i)
   \/ (forall i, (i < m)%nat -> v i = ndcg_shared_weight k m grade order i)).

(* c_m *)
Definition largest_share (k m : nat) : R := if m <=? k then 1 - ln 2 / ln (INR m + 1) else 1.

Definition outranked_weight (m : nat) (grade rank : nat -> nat) (v : nat -> R) : R :=
  sum m (fun i => if outranked m grade rank i then v i else 0).

Lemma gain_nonneg g : 0 <= gain g.
Proof. unfold gain. pose proof (pow_R1_Rle 2 g ltac:(lra)). lra. Qed.

Lemma ln_place_pos p : 0 < ln (INR p + 2).
Proof. rewrite <- ln_1. apply ln_increasing; pose proof (pos_INR p); lra. Qed.

Lemma log_discount_pos p : 0 < log_discount p.
Proof.
  apply Rmult_lt_0_compat; [|apply Rinv_0_lt_compat, ln_place_pos].
  pose proof (ln_place_pos 0). simpl in H. now rewrite Rplus_0_l in H.
Qed.

Lemma log_discount_falls p p' : (p <= p')%nat -> log_discount p' <= log_discount p.
Proof.
  intro L. unfold log_discount, Rdiv. apply Rmult_le_compat_l.
  - pose proof (ln_place_pos 0) as H. simpl in H. rewrite Rplus_0_l in H. lra.
  - apply Rinv_le_contravar; [apply ln_place_pos|]. apply le_INR in L. pose proof (pos_INR p).
    destruct (Req_dec (INR p) (INR p')) as [->|]; [lra|]. left. apply ln_increasing; lra.
Qed.

Lemma log_discount_first : log_discount 0 = 1.
Proof.
  unfold log_discount. simpl. rewrite Rplus_0_l. apply Rinv_r.
  pose proof (ln_place_pos 0) as H. simpl in H. rewrite Rplus_0_l in H. lra.
Qed.

Lemma cut_nonneg k p : 0 <= cut k log_discount p.
Proof. unfold cut. pose proof (log_discount_pos p). destruct (_ <? _); lra. Qed.

Lemma cut_falls k p p' : (p <= p')%nat -> cut k log_discount p' <= cut k log_discount p.
Proof.
  intro L. unfold cut. pose proof (log_discount_falls p p' L). pose proof (log_discount_pos p).
  destruct (Nat.ltb_spec p' k), (Nat.ltb_spec p k); try lra. lia.
Qed.

Lemma cut_first k : cut k log_discount 0 <= 1.
Proof. unfold cut. rewrite log_discount_first. destruct (_ <? _); lra. Qed.

(* All orders by grade have the same DCG, so NDCG does not depend on which one is called ideal. *)
Lemma ideal_at_most k m grade p p' : by_grade m grade p -> by_grade m grade p' ->
  dcg_at k m grade p <= dcg_at k m grade p'.
Proof.
  intros S (P & S'). unfold dcg_at.
  pose proof (kept_are_paid m grade p' P gain (cut k log_discount) gain_nonneg (cut_falls k) _
    (order_lays_places m grade _ (cut_falls k) p S)) as H.
  assert (N : forall i, (i < m)%nat -> outranked m grade p' i = false).
  { intros i I. destruct (outranked m grade p' i) eqn:O; [exfalso|easy].
    apply outranked_spec in O as (j & J & G & R). specialize (S' i j I J G). lia. }
  unfold dcg_of. eapply Rle_trans; [|eapply Rle_trans; [exact H|]];
    apply Req_le, sum_ext; intros i I; rewrite (N i I); easy.
Qed.

Lemma ideal_unique k m grade p p' : by_grade m grade p -> by_grade m grade p' ->
  dcg_at k m grade p = dcg_at k m grade p'.
Proof. intros. apply Rle_antisym; now apply ideal_at_most. Qed.

Lemma ndcg_weights_sum k m grade v ideal : ndcg_weights k m grade v -> by_grade m grade ideal ->
  0 < dcg_at k m grade ideal -> (forall i, (i < m)%nat -> 0 <= v i) /\ sum m v = 1.
Proof.
  intros (o & So & V) Si Z. rewrite (ideal_unique k m grade ideal o Si So) in Z. split.
  - intros i I. assert (0 < / dcg_at k m grade o) by now apply Rinv_0_lt_compat.
    destruct V as [V|V]; rewrite (V i I); apply Rmult_le_pos; try lra; apply Rmult_le_pos; try apply gain_nonneg.
    + apply cut_nonneg.
    + apply Rmult_le_pos.
      * induction (class m grade (grade i)) as [|x l IH]; simpl; [lra|]. pose proof (cut_nonneg k (o x)). lra.
      * left. apply Rinv_0_lt_compat, lt_0_INR. assert (In i (class m grade (grade i))) by now apply in_class.
        destruct (class m grade (grade i)); [easy|simpl; lia].
  - assert (E : forall f, sum m (fun i => gain (grade i) * f i) = dcg_at k m grade o ->
      sum m (fun i => gain (grade i) * f i / dcg_at k m grade o) = 1).
    { intros f F. rewrite (sum_ext m _ (fun i => / dcg_at k m grade o * (gain (grade i) * f i))) by (intros; unfold Rdiv; ring).
      rewrite sum_scal, F. apply Rinv_l. lra. }
    destruct V as [V|V]; rewrite (sum_ext m v _ V); apply E; [easy|apply shared_sums_alike].
Qed.

(* Lemmas 1 and 1' for NDCG@k; without a cut-off, k = m *)
Theorem lemma_1_ndcg k m grade ideal rank v : permutes m rank -> by_grade m grade ideal ->
  0 < dcg_at k m grade ideal -> ndcg_weights k m grade v ->
  1 - ndcg_at k m grade ideal rank <= largest_share k m * outranked_weight m grade rank v
  /\ outranked_weight m grade rank v <= 1.
Proof.
  intros P Si Z V. destruct (ndcg_weights_sum k m grade v ideal V Si Z) as (V0 & V1).
  split; [|rewrite <- V1; apply sum_le; intros i I; specialize (V0 i I); destruct (outranked _ _ _ _); lra].
  destruct V as (o & So & V). unfold ndcg_at.
  rewrite (ideal_unique k m grade ideal o Si So) in *. set (z := dcg_at k m grade o) in *.
  assert (Main : forall share, lays_places m grade (cut k log_discount) share ->
    sum m (fun i => gain (grade i) * share i) = z -> (forall i, (i < m)%nat -> v i = gain (grade i) * share i / z) ->
    1 - dcg_at k m grade rank / z <= largest_share k m * outranked_weight m grade rank v).
  { intros share Lay Sum Vs.
    destruct (Nat.eq_dec m 0) as [M0|M0]; [exfalso; unfold z, dcg_at, dcg_of in Z; rewrite M0 in Z; simpl in Z; lra|].
    set (least := 1 - largest_share k m).
    assert (Least : 0 <= least /\ forall p, (p < m)%nat -> least <= cut k log_discount p).
    { unfold least, largest_share. destruct (Nat.leb_spec m k) as [L|].
      - replace (1 - (1 - ln 2 / ln (INR m + 1))) with (log_discount (m - 1)).
        + split; [left; apply log_discount_pos|]. intros p Hp. unfold cut.
          destruct (Nat.ltb_spec p k); [|lia]. apply log_discount_falls. lia.
        + unfold log_discount. rewrite minus_INR by lia. simpl (INR 1). replace (INR m - 1 + 2) with (INR m + 1) by ring. ring.
      - split; [lra|]. intros p _. replace (1 - 1) with 0 by ring. apply cut_nonneg. }
    destruct Least as (L0 & L).
    pose proof (lemma_1_dcg m grade rank P gain (cut k log_discount) gain_nonneg (cut_falls k)
      share least Lay (cut_first k) L0 L) as H.
    rewrite Sum in H. fold (dcg_at k m grade rank) in H.
    replace (1 - least) with (largest_share k m) in H by (unfold least; ring).
    replace (sum m (fun i => if outranked m grade rank i then gain (grade i) * share i else 0))
      with (z * outranked_weight m grade rank v) in H.
    - apply Rmult_le_reg_l with z; [easy|].
      replace (z * (1 - dcg_at k m grade rank / z)) with (z - dcg_at k m grade rank) by (field; lra). lra.
    - unfold outranked_weight. rewrite <- sum_scal. apply sum_ext; intros i I.
      destruct (outranked _ _ _ _); [rewrite (Vs i I); field; lra|ring]. }
  destruct V as [V|V].
  - apply (Main (fun i => cut k log_discount (o i))); auto. apply order_lays_places; [apply cut_falls|easy].
  - apply (Main (shared m grade (cut k log_discount) o)); auto.
    + apply shared_lays_places; [apply cut_falls|easy].
    + apply shared_sums_alike.
Qed.

(* AP: documents with a positive grade are relevant. *)
Definition relevant (m : nat) (grade : nat -> nat) : list nat := filter (fun i => 0 <? grade i) (seq 0 m).
Definition precision (m : nat) (grade rank : nat -> nat) (i : nat) : R :=
  INR (length (filter (fun j => rank j <=? rank i) (relevant m grade))) / INR (S (rank i)).
Definition ap (m : nat) (grade rank : nat -> nat) : R :=
  lsum (precision m grade rank) (relevant m grade) / INR (length (relevant m grade)).
Definition ap_weight (m : nat) (grade : nat -> nat) (i : nat) : R :=
  if 0 <? grade i then / INR (length (relevant m grade)) else 0.
Definition ap_share (m : nat) : R := 1 - / INR m.

Lemma in_relevant m grade i : In i (relevant m grade) <-> (i < m)%nat /\ (0 < grade i)%nat.
Proof. unfold relevant. rewrite filter_In, in_seq, Nat.ltb_lt. lia. Qed.

Lemma lsum_le f g l : (forall x, In x l -> f x <= g x) -> lsum f l <= lsum g l.
Proof.
  induction l; intro H; simpl; [lra|]. assert (f a <= g a) by (apply H; simpl; auto).
  assert (lsum f l <= lsum g l) by (apply IHl; intros; apply H; simpl; auto). lra.
Qed.

Lemma precision_kept m grade rank i : permutes m rank -> (i < m)%nat -> (0 < grade i <= 1)%nat ->
  outranked m grade rank i = false -> 1 <= precision m grade rank i.
Proof.
  intros P HI G NB. unfold precision.
  assert (L : (S (rank i) <= length (filter (fun j => rank j <=? rank i) (relevant m grade)))%nat).
  { rewrite <- (seq_length (S (rank i)) 0), <- (map_length rank (filter _ _)).
    apply NoDup_incl_length; [apply seq_NoDup|]. intros y Y. apply in_seq in Y.
    assert (B : (rank i < m)%nat) by now apply P.
    destruct (every_place_is_taken m rank P y) as (j & J & <-); [lia|].
    apply in_map, filter_In. rewrite Nat.leb_le, in_relevant. split; [|lia]. split; [easy|].
    destruct (Nat.eq_dec j i) as [->|N]; [easy|].
    assert (rank j <> rank i) by (intro E; apply N, P; auto).
    destruct (le_lt_dec (grade i) (grade j)) as [|Lt]; [lia|exfalso].
    assert (outranked m grade rank i = true) by (apply outranked_spec; exists j; lia). congruence. }
  assert (P0 : 0 < INR (S (rank i))) by (apply lt_0_INR; lia). apply le_INR in L.
  apply Rmult_le_reg_l with (INR (S (rank i))); [easy|]. unfold Rdiv.
  rewrite <- Rmult_assoc, (Rmult_comm (INR (S (rank i))) (INR (length _))), Rmult_assoc, Rinv_r; lra.
Qed.

Lemma precision_at_least m grade rank i : permutes m rank -> In i (relevant m grade) ->
  / INR m <= precision m grade rank i.
Proof.
  intros P I. pose proof I as I'. apply in_relevant in I' as (HI & _). unfold precision.
  assert (F : In i (filter (fun j => rank j <=? rank i) (relevant m grade)))
    by (apply filter_In; rewrite Nat.leb_le; auto).
  assert (1 <= INR (length (filter (fun j => rank j <=? rank i) (relevant m grade)))).
  { change 1 with (INR 1). apply le_INR. destruct (filter _ _); [easy|simpl; lia]. }
  assert (B : (rank i < m)%nat) by now apply P.
  assert (/ INR m <= / INR (S (rank i))) by (apply Rinv_le_contravar; [apply lt_0_INR|apply le_INR]; lia).
  assert (0 < / INR (S (rank i))) by (apply Rinv_0_lt_compat, lt_0_INR; lia). unfold Rdiv. nra.
Qed.

Lemma ap_weights_sum m grade : relevant m grade <> nil ->
  (forall i, 0 <= ap_weight m grade i) /\ sum m (ap_weight m grade) = 1.
Proof.
  intro N. assert (P : 0 < INR (length (relevant m grade)))
    by (apply lt_0_INR; destruct (relevant m grade); [easy|simpl; lia]).
  split; [intro i; unfold ap_weight; destruct (_ <? _); [left; now apply Rinv_0_lt_compat|lra]|].
  unfold ap_weight. rewrite sum_filter. fold (relevant m grade). rewrite lsum_const. apply Rinv_r. lra.
Qed.

(* Lemmas 1 and 1' for AP *)
Theorem lemma_1_ap m grade rank : permutes m rank -> (forall i, (i < m)%nat -> (grade i <= 1)%nat) ->
  relevant m grade <> nil ->
  1 - ap m grade rank <= ap_share m * outranked_weight m grade rank (ap_weight m grade)
  /\ outranked_weight m grade rank (ap_weight m grade) <= 1.
Proof.
  intros P G N. destruct (ap_weights_sum m grade N) as (V0 & V1).
  split; [|rewrite <- V1; apply sum_le; intros i I; specialize (V0 i); destruct (outranked _ _ _ _); lra].
  set (r := INR (length (relevant m grade))).
  assert (R0 : 0 < r) by (apply lt_0_INR; destruct (relevant m grade); [easy|simpl; lia]).
  assert (E : r * outranked_weight m grade rank (ap_weight m grade)
    = lsum (fun i => if outranked m grade rank i then 1 else 0) (relevant m grade)).
  { unfold outranked_weight, relevant. rewrite <- sum_scal, <- sum_filter. apply sum_ext; intros i _.
    unfold ap_weight. fold r. destruct (outranked m grade rank i), (0 <? grade i); try lra. apply Rinv_r. lra. }
  assert (H : lsum (fun i => 1 - ap_share m * (if outranked m grade rank i then 1 else 0)) (relevant m grade)
    <= lsum (precision m grade rank) (relevant m grade)).
  { apply lsum_le; intros i I. pose proof (precision_at_least m grade rank i P I).
    apply in_relevant in I as (HI & Gi). destruct (outranked m grade rank i) eqn:O; unfold ap_share; [lra|].
    pose proof (precision_kept m grade rank i P HI (conj Gi (G i HI)) O). lra. }
  assert (Sp : lsum (fun i => 1 - ap_share m * (if outranked m grade rank i then 1 else 0)) (relevant m grade)
    = r - ap_share m * lsum (fun i => if outranked m grade rank i then 1 else 0) (relevant m grade)).
  { unfold r. clear. induction (relevant m grade); simpl lsum; [simpl; ring|]. rewrite IHl. cbn [length]. rewrite S_INR. ring. }
  rewrite Sp, <- E in H. apply Rmult_le_reg_l with r; [easy|]. unfold ap. fold r.
  replace (r * (1 - lsum (precision m grade rank) (relevant m grade) / r))
    with (r - lsum (precision m grade rank) (relevant m grade)) by (field; lra). lra.
Qed.

(* Queries of two documents, one of them relevant: what a deterministic learner must lose, exactly. *)
From Perceptrank Require Export TheoremB.
Require Import Bool.

(* A query, and which of its documents is the relevant one. *)
Record query := Query { x0 : vec; x1 : vec; first_is_relevant : bool }.

(* Queries so far, the last one at the head of the list. *)
Definition stream := list query.

(* A deterministic learner says whether the first of two documents goes on top; it knows the queries before. *)
Definition learner := stream -> vec -> vec -> bool.

Definition grades (first_is_relevant : bool) (i : nat) : nat := if eqb first_is_relevant (i =? 0) then 1 else 0.
Definition places (first_on_top : bool) (i : nat) : nat := if eqb first_on_top (i =? 0) then 0 else 1.

Inductive measure := NDCG | AP.

Definition loss (f : measure) (first_is_relevant first_on_top : bool) : R :=
  match f with
  | NDCG => 1 - ndcg_at 2 2 (grades first_is_relevant) (places first_is_relevant) (places first_on_top)
  | AP => 1 - ap 2 (grades first_is_relevant) (places first_on_top)
  end.

Fixpoint total_loss (f : measure) (a : learner) (s : stream) : R :=
  match s with
  | nil => 0
  | x :: s => total_loss f a s + loss f (first_is_relevant x) (a s (x0 x) (x1 x))
  end.

(* The relevant document minus the other *)
Definition difference (x : query) : vec := if first_is_relevant x then vminus (x0 x) (x1 x) else vminus (x1 x) (x0 x).

(* SLAM with margin 1: the hinge, as all the weight is on the relevant document. *)
Fixpoint total_hinge (d : nat) (u : vec) (s : stream) : R :=
  match s with nil => 0 | x :: s => total_hinge d u s + Rmax 0 (1 - dot d u (difference x)) end.

(* Some u with U^2 D^2 <= K has a surrogate of at most L on the stream; D is at least all distances. *)
Definition admissible (d : nat) (D K L : R) (s : stream) : Prop :=
  (forall x, In x s -> norm d (vminus (x0 x) (x1 x)) <= D)
  /\ exists u, dot d u u * (D * D) <= K /\ total_hinge d u s <= L.

Definition c2 (f : measure) : R := match f with NDCG => 1 - ln 2 / ln 3 | AP => 1 / 2 end.

Lemma c2_nonneg f : 0 <= c2 f.
Proof.
  destruct f; simpl; [|lra]. pose proof (log_discount_falls 0 1 ltac:(lia)) as H.
  rewrite log_discount_first in H. unfold log_discount in H. simpl in H. replace (1 + 2) with 3 in H by ring. lra.
Qed.

Lemma loss_value f rel top : loss f rel top = if eqb rel top then 0 else c2 f.
Proof.
  assert (L3 : 0 < ln 3) by (rewrite <- ln_1; apply ln_increasing; lra).
  assert (L2 : 0 < ln 2) by (rewrite <- ln_1; apply ln_increasing; lra).
  destruct f, rel, top; simpl;
    unfold ndcg_at, dcg_at, dcg_of, cut, gain, log_discount, ap, precision, relevant; simpl;
    replace (0 + 2) with 2 by ring; replace (1 + 2) with 3 by ring; field; lra.
Qed.

(* The perceptron: it moves on a mistake, by the difference of the two documents. *)
Definition on_top (d : nat) (w : vec) (a b : vec) : bool := if Rlt_dec (dot d w b) (dot d w a) then true else false.

Fixpoint weights (d : nat) (s : stream) : vec :=
  match s with
  | nil => fun _ => 0
  | x :: s => let w := weights d s in
      if eqb (first_is_relevant x) (on_top d w (x0 x) (x1 x)) then w else fun k => w k + difference x k
  end.

Definition perceptron (d : nat) : learner := fun s => on_top d (weights d s).

Fixpoint mistakes (a : learner) (s : stream) : nat :=
  match s with
  | nil => 0
  | x :: s => (if eqb (first_is_relevant x) (a s (x0 x) (x1 x)) then 0 else 1) + mistakes a s
  end.

Lemma total_loss_value f a s : total_loss f a s = c2 f * INR (mistakes a s).
Proof.
  induction s as [|x s IH]; [simpl; ring|]. simpl total_loss. rewrite loss_value, IH. simpl mistakes.
  destruct (eqb _ _); [simpl Nat.add; ring|]. rewrite plus_INR. simpl (INR 1). ring.
Qed.

Lemma mistake_disagrees d w x : eqb (first_is_relevant x) (on_top d w (x0 x) (x1 x)) = false ->
  dot d w (difference x) <= 0.
Proof.
  unfold on_top, difference. destruct (Rlt_dec _ _), (first_is_relevant x); simpl; try easy; intros _;
    rewrite dot_comm, dot_minus, !(dot_comm _ _ w); lra.
Qed.

Lemma difference_square d D x : norm d (vminus (x0 x) (x1 x)) <= D -> dot d (difference x) (difference x) <= D * D.
Proof.
  intro H. replace (dot d (difference x) (difference x)) with (dot d (vminus (x0 x) (x1 x)) (vminus (x0 x) (x1 x))).
  - rewrite <- norm_square. pose proof (norm_nonneg d (vminus (x0 x) (x1 x))). nra.
  - unfold difference. destruct (first_is_relevant x); [easy|].
    apply sum_ext; intros; unfold vminus; ring.
Qed.

Lemma perceptron_invariant d D u s : (forall x, In x s -> norm d (vminus (x0 x) (x1 x)) <= D) ->
  INR (mistakes (perceptron d) s) - total_hinge d u s <= dot d (weights d s) u
  /\ dot d (weights d s) (weights d s) <= D * D * INR (mistakes (perceptron d) s).
Proof.
  induction s as [|x s IH]; intro H.
  - assert (Z : forall y, dot d (fun _ => 0) y = 0)
      by (intro y; unfold dot; rewrite (sum_ext d _ (fun _ => 0)) by (intros; ring); apply sum_zero).
    simpl. rewrite !Z. lra.
  - destruct IH as (A & B); [intros; apply H; now right|]. specialize (H x (or_introl eq_refl)).
    pose proof (Rmax_l 0 (1 - dot d u (difference x))). pose proof (Rmax_r 0 (1 - dot d u (difference x))).
    simpl. unfold perceptron at 1 3.
    destruct (eqb (first_is_relevant x) (on_top d (weights d s) (x0 x) (x1 x))) eqn:E.
    + simpl Nat.add. lra.
    + apply mistake_disagrees in E. apply difference_square in H. rewrite plus_INR. simpl (INR 1).
      rewrite dot_square_sum.
      replace (dot d (fun k => weights d s k + difference x k) u) with (dot d (weights d s) u + dot d u (difference x))
        by (unfold dot; rewrite <- sum_plus; apply sum_ext; intros; ring).
      split; lra.
Qed.

Lemma total_hinge_nonneg d u s : 0 <= total_hinge d u s.
Proof. induction s as [|x s IH]; simpl; [lra|]. pose proof (Rmax_l 0 (1 - dot d u (difference x))). lra. Qed.

Lemma bound_grows K K' L L' : 0 <= K <= K' -> 0 <= L <= L' -> sharp_bound K L <= sharp_bound K' L'.
Proof.
  intros HK HL. unfold sharp_bound. assert (sqrt (K * L + K * K / 4) <= sqrt (K' * L' + K' * K' / 4)); [|lra].
  apply sqrt_le_1_alt. assert (K * L <= K' * L') by (apply Rmult_le_compat; lra).
  assert (K * K <= K' * K') by (apply Rmult_le_compat; lra). lra.
Qed.

(* Upper side: the perceptron loses at most c2 n, n the integer part of the bound. *)
Theorem two_documents_upper f d D K L n s : INR n <= sharp_bound K L < INR n + 1 ->
  admissible d D K L s -> total_loss f (perceptron d) s <= c2 f * INR n.
Proof.
  intros (_ & Hn) (HD & u & HU & HL). rewrite total_loss_value. apply Rmult_le_compat_l; [apply c2_nonneg|].
  destruct (perceptron_invariant d D u s HD) as (A & B). set (M := INR (mistakes (perceptron d) s)) in *.
  pose proof (total_hinge_nonneg d u s) as H0. pose proof (dot_square_nonneg d u) as U0.
  assert (K0 : 0 <= dot d u u * (D * D)) by (apply Rmult_le_pos; nra).
  assert (Bd : M <= sharp_bound (dot d u u * (D * D)) (total_hinge d u s)).
  { apply root; auto. intro Le. pose proof (cauchy_schwarz d (weights d s) u) as CS.
    assert ((M - total_hinge d u s) * (M - total_hinge d u s) <= dot d (weights d s) u * dot d (weights d s) u)
      by (apply Rmult_le_compat; lra).
    assert (dot d (weights d s) (weights d s) * dot d u u <= D * D * M * dot d u u) by (now apply Rmult_le_compat_r). lra. }
  pose proof (bound_grows (dot d u u * (D * D)) K (total_hinge d u s) L ltac:(lra) ltac:(lra)).
  apply le_INR. apply Nat.lt_succ_r, INR_lt. fold M. rewrite S_INR. lra.
Qed.

(* The adversary: query t is +D/2 and -D/2 in a new direction; the document on top is not relevant. *)
Definition axis (c : R) (t : nat) : vec := fun k => if k =? t then c else 0.

Fixpoint adversary (a : learner) (D : R) (T : nat) : stream :=
  match T with
  | O => nil
  | S t => let s := adversary a D t in
      Query (axis (D / 2) t) (axis (- (D / 2)) t) (negb (a s (axis (D / 2) t) (axis (- (D / 2)) t))) :: s
  end.

Lemma adversary_wins f a D T : total_loss f a (adversary a D T) = c2 f * INR T.
Proof.
  rewrite total_loss_value. f_equal. f_equal. induction T; [easy|]. simpl. rewrite IHT.
  now destruct (a _ _ _).
Qed.

(* What the adversary compares with: b / D in each direction, with the sign of the relevant document. *)
Definition sign (a : learner) (D : R) (t : nat) : R :=
  if a (adversary a D t) (axis (D / 2) t) (axis (- (D / 2)) t) then -1 else 1.
Definition rival (a : learner) (D b : R) (T : nat) : vec := fun k => if k <? T then sign a D k * (b / D) else 0.

Lemma sign_square a D t : sign a D t * sign a D t = 1.
Proof. unfold sign. destruct (a _ _ _); ring. Qed.

Lemma dot_axis d x c t : (t < d)%nat -> dot d x (axis c t) = x t * c.
Proof.
  intro H. unfold dot, axis. rewrite (sum_only d _ t); [now rewrite Nat.eqb_refl| |easy].
  intros i _ N. destruct (Nat.eqb_spec i t); [easy|ring].
Qed.

Lemma rival_square d a D b T : 0 < D -> (T <= d)%nat ->
  dot d (rival a D b T) (rival a D b T) * (D * D) = INR T * (b * b).
Proof.
  intros HD L. unfold dot. replace d with (T + (d - T))%nat by lia. rewrite sum_app.
  rewrite (sum_ext (d - T) _ (fun _ => 0)), sum_zero.
  - rewrite (sum_ext T _ (fun _ => (b * b) / (D * D))).
    + rewrite sum_const. field. lra.
    + intros k Hk. unfold rival. destruct (Nat.ltb_spec k T); [|lia].
      replace (sign a D k * (b / D) * (sign a D k * (b / D))) with (sign a D k * sign a D k * (b * b / (D * D))) by (field; lra).
      rewrite sign_square. ring.
  - intros i _. unfold rival. destruct (Nat.ltb_spec (T + i) T); [lia|ring].
Qed.

Lemma rival_hinge d a D b T n : 0 < D -> b <= 1 -> (T <= n)%nat -> (n <= d)%nat ->
  total_hinge d (rival a D b n) (adversary a D T) = INR T * (1 - b).
Proof.
  intros HD Hb. induction T; intros L1 L2; [simpl; ring|]. cbn [adversary total_hinge].
  rewrite IHT by lia. rewrite S_INR.
  match goal with |- context [dot d ?u (difference ?x)] => replace (dot d u (difference x)) with b end.
  - rewrite Rmax_right by lra. ring.
  - unfold difference; simpl.
    assert (R : rival a D b n T = sign a D T * (b / D))
      by (unfold rival; destruct (Nat.ltb_spec T n); [easy|lia]).
    unfold sign in R. destruct (a _ _ _); simpl; rewrite dot_comm, dot_minus, !(dot_comm _ (axis _ _)), !dot_axis, R by lia;
      field; lra.
Qed.

Lemma adversary_diameter d a D T x : 0 <= D -> (T <= d)%nat -> In x (adversary a D T) ->
  norm d (vminus (x0 x) (x1 x)) <= D.
Proof.
  intros HD. induction T; intros L; simpl; [easy|]. intros [<-|I]; [|apply IHT; [lia|easy]]. simpl.
  assert (E : forall k, vminus (axis (D / 2) T) (axis (- (D / 2)) T) k = axis D T k)
    by (intro k; unfold vminus, axis; destruct (k =? T); lra).
  rewrite (norm_ext d _ (axis D T)) by (intros; apply E).
  unfold norm. rewrite dot_axis by lia. unfold axis. rewrite Nat.eqb_refl, sqrt_square; lra.
Qed.

(* A length of the rival for every T that the bound allows *)
Lemma rival_exists K L n : 0 <= K -> 0 <= L -> INR n <= sharp_bound K L ->
  exists b, 0 <= b <= 1 /\ INR n * (b * b) <= K /\ INR n * (1 - b) <= L.
Proof.
  intros HK HL Hn. pose proof (pos_INR n) as N0.
  destruct (Rle_dec (INR n) L) as [Le|N]; [exists 0; lra|].
  assert (P : 0 < INR n) by lra. exists ((INR n - L) / INR n).
  assert (B : INR n * ((INR n - L) / INR n) = INR n - L) by (field; lra).
  assert (0 < / INR n) by now apply Rinv_0_lt_compat.
  split; [split|split].
  - unfold Rdiv. apply Rmult_le_pos; lra.
  - apply Rmult_le_reg_l with (INR n); lra.
  - rewrite <- Rmult_assoc, B. apply Rmult_le_reg_l with (INR n); [easy|].
    replace (INR n * ((INR n - L) * ((INR n - L) / INR n))) with ((INR n - L) * (INR n - L)) by (field; lra).
    unfold sharp_bound in Hn. set (q := K * L + K * K / 4) in *.
    assert (Q : 0 <= q) by (unfold q; nra). pose proof (sqrt_sqrt q Q). pose proof (sqrt_pos q).
    destruct (Rle_dec 0 (INR n - L - K / 2)) as [Y|Y]; [|nra].
    assert ((INR n - L - K / 2) * (INR n - L - K / 2) <= sqrt q * sqrt q) by (apply Rmult_le_compat; lra).
    unfold q in *. nra.
  - lra.
Qed.

(* Lower side: every deterministic learner loses as much, given enough features. *)
Theorem two_documents_lower f (a : learner) d D K L n : 0 < D -> 0 <= K -> 0 <= L -> INR n <= sharp_bound K L ->
  (n <= d)%nat -> exists s, admissible d D K L s /\ total_loss f a s = c2 f * INR n.
Proof.
  intros HD HK HL Hn Hd. exists (adversary a D n). split; [|apply adversary_wins].
  split; [intros x I; apply (adversary_diameter d a D n); auto; lra|].
  destruct (rival_exists K L n HK HL Hn) as (b & B & BK & BL). exists (rival a D b n).
  rewrite rival_square, rival_hinge by (lra || lia || auto). auto.
Qed.

(* N1: the value of the game is exactly c2 times the integer part of the bound. *)
Theorem two_documents_value f d D K L n : 0 < D -> 0 <= K -> 0 <= L ->
  INR n <= sharp_bound K L < INR n + 1 -> (n <= d)%nat ->
  (exists a, forall s, admissible d D K L s -> total_loss f a s <= c2 f * INR n)
  /\ forall a, exists s, admissible d D K L s /\ total_loss f a s = c2 f * INR n.
Proof.
  intros HD HK HL Hn Hd. split.
  - exists (perceptron d). intros s A. now apply (two_documents_upper f d D K L n s).
  - intro a. apply two_documents_lower; auto. lra.
Qed.
